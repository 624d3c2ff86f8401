import { existsSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { newKey } from "../local/dev-vars.ts";
import { readText, type TextFile } from "./files.ts";

export interface Edit extends Pick<TextFile, "as"> {
  file: string;
  before: string;
  after: string;
  /** If true, the printed diff does not show the values. */
  isSecret?: boolean;
  /** The permissions that the file must have. */
  mode?: number;
}

export function editOf(file: string, after: (before: string) => string): Edit {
  const { text, as } = readText(file);
  return { file, before: text, after: after(text), as };
}

const withLines = (text: string, lines: string) =>
  lines === "" ? text : `${text}${text === "" || text.endsWith("\n") ? "" : "\n"}${lines}`;

/** Edits .gitignore and .dev.vars, so that secrets and state are not committed. A new .gitignore also excludes node_modules. */
export function beside(root: string): { edits: Edit[]; notes: string[] } {
  const gitignore = editOf(join(root, ".gitignore"), (text) => {
    const missing = [...(text === "" ? ["node_modules"] : []), ".dev.vars", ".millrace", ".wrangler"].filter(
      (name) => !isIgnored(text, name),
    );
    return withLines(text, missing.map((name) => `${name}\n`).join(""));
  });
  const secrets = secretsOf(root);
  const isKept = /^!\/?\.dev\.vars\s*$/m.test(gitignore.before) && gitignore.before !== gitignore.after;
  return {
    edits: [gitignore, secrets.edit],
    notes: [
      ...(isKept
        ? [`.gitignore has the line !.dev.vars, which puts secrets into the repository. The added line .dev.vars ignores the file again.`]
        : []),
      ...secrets.notes,
    ],
  };
}

/** True if the last line of the .gitignore that matches the name excludes the name. */
function isIgnored(gitignore: string, name: string): boolean {
  let ignored = false;
  for (const line of gitignore.split("\n")) {
    const [, not, pattern = ""] = /^(!?)\/?(.*?)\/?\s*$/.exec(line) ?? [];
    if (pattern === name || pattern === `${name}*` || (name === ".dev.vars" && pattern === ".dev.*")) ignored = not === "";
  }
  return ignored;
}

const OWNER_ONLY = 0o600;

/**
 * Adds a secret key to `.dev.vars`. If `.dev.vars` exists, wrangler does not read `.env`, so the variables of `.env` are copied to
 * `.dev.vars`.
 */
function secretsOf(root: string): { edit: Edit; notes: string[] } {
  const file = join(root, ".dev.vars");
  const isNew = !existsSync(file);
  const others = isNew ? [".env", ".env.local"].map((name) => join(root, name)).filter((one) => existsSync(one)) : [];
  const names = others.map((one) => basename(one)).join(" and ");
  const copied = others.map((one) => readText(one).text).reduce(withLines, "");
  const edit = editOf(file, (text) => {
    const start = isNew ? copied : text;
    const hasKey = /^[ \t]*(export[ \t]+)?MILLRACE_KEY[ \t]*=/m.test(start);
    return hasKey ? start : withLines(start, `MILLRACE_KEY=${newKey()}\n`);
  });
  const isOpen = !isNew && (statSync(file).mode & 0o077) !== 0;
  return {
    edit: { ...edit, isSecret: true, mode: OWNER_ONLY },
    notes: [
      ...(others.length > 0
        ? [
            `Wrangler does not read ${names} beside .dev.vars. The variables of ${names} are copied into .dev.vars: change them there from now on.`,
          ]
        : []),
      ...(isOpen ? [".dev.vars is readable for other users of this machine. Its mode becomes 0600: for its owner alone."] : []),
    ],
  };
}

export const isTooOpen = ({ file, mode }: Edit) => mode !== undefined && existsSync(file) && (statSync(file).mode & 0o777 & ~mode) !== 0;
