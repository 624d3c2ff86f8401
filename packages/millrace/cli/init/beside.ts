import { existsSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { newKey } from "../local/dev-vars.ts";
import { readText, type TextFile } from "./files.ts";

export interface Edit extends Pick<TextFile, "as"> {
  file: string;
  before: string;
  after: string;
  /** True hides the values in the printed diff. */
  isSecret?: boolean;
  /** The mode that the file must have. */
  mode?: number;
}

export function editOf(file: string, after: (before: string) => string): Edit {
  const { text, as } = readText(file);
  return { file, before: text, after: after(text), as };
}

const withLines = (text: string, lines: string) =>
  lines === "" ? text : `${text}${text === "" || text.endsWith("\n") ? "" : "\n"}${lines}`;

/** Edits .gitignore and .dev.vars, so that secrets and state are not committed. A new .gitignore ignores the packages, too. */
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

/** True if the last matching line ignores the name. */
function isIgnored(gitignore: string, name: string): boolean {
  let ignored = false;
  for (const line of gitignore.split("\n")) {
    const [, not, pattern = ""] = /^(!?)\/?(.*?)\/?\s*$/.exec(line) ?? [];
    if (pattern === name || pattern === `${name}*` || (name === ".dev.vars" && pattern === ".dev.*")) ignored = not === "";
  }
  return ignored;
}

const OWNER_ONLY = 0o600;

/** Adds a key to `.dev.vars`. Wrangler does not read `.env` if this file exists, so the variables of `.env` are copied. */
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
