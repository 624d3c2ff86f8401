import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as classes from "../../packages/millrace/src/store/inbox/classes.ts";
import * as statuses from "../../packages/millrace/src/store/instances/status.ts";

/** A statement in the source, in one of its possible forms; its values are question marks. */
export interface Written {
  /** The file, and the constant or function that contains the statement: `inspect/instances.ts listInstances`. */
  readonly where: string;
  readonly text: string;
}

/** A template literal of the source. */
interface Template {
  readonly file: string;
  /** The constant with this value, or else the function that contains it. */
  readonly owner: string;
  readonly texts: readonly string[];
  readonly holes: readonly string[];
  /** The code immediately before the template. */
  readonly before: string;
  /** SQL: a tagged template, a fragment, or a text that begins like a statement. */
  readonly isSql: boolean;
}

const STATEMENT = /^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b/;
/** The SELECT statements of the engine's verbs for bulk actions, for statements that contain a verb's SELECT. */
const MEMBERS = ["instanceMembers", "letterMembers", "doubtMembers"];
/** A placeholder for a part that cannot be read from the source. */
const UNREAD = "<unread>";
const NOW = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";
/** Lists of statuses and of effect classes by the names of their sets, which are computed from tables. */
const SETS = new Map(
  [...Object.entries(statuses), ...Object.entries(classes)].flatMap(([name, set]) => ("fragment" in set ? [[name, set.fragment]] : [])),
);

/**
 * Every SQL statement below a folder, read from its TypeScript: fragments, conditions and parts from function arguments are inserted, each
 * alternative once. A part that cannot be found is `UNREAD`: no statement is omitted silently.
 */
export function readSql(root: string): Written[] {
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  const sources = new Map(files.map((file) => [file, withoutComments(readFileSync(join(root, file), "utf8"))]));
  const templates = [...sources].flatMap(([file, source]) => templatesOf(file, source));
  const reader = new Reader(sources, templates);
  return templates
    .filter(({ isSql, texts, before }) => isSql && STATEMENT.test(texts[0] ?? "") && !/\$\{[^}]*$/.test(before))
    .flatMap((template) =>
      reader.forms(template).map((text) => ({ where: `${template.file} ${template.owner}`, text: text.replaceAll(/\s+/g, " ").trim() })),
    );
}

class Reader {
  readonly #sources: ReadonlyMap<string, string>;
  readonly #templates: readonly Template[];

  constructor(sources: ReadonlyMap<string, string>, templates: readonly Template[]) {
    this.#sources = sources;
    this.#templates = templates;
  }

  /** A template with its placeholders filled: once with the first alternative of each, and once more for every other alternative. */
  forms(template: Template): string[] {
    const choices = template.holes.map((hole, index) => this.#fillings(template, hole, template.texts[index] ?? ""));
    // One caller's arguments belong together: a table, and the condition on it.
    const handed = choices.map((_, index) => /^\w+$/.test(template.holes[index] ?? "") && (choices[index]?.length ?? 0) > 1);
    const form = (chosen: number, alternative: number) =>
      template.texts.reduce((all, text, index) => {
        const hole = index - 1;
        const varies = hole === chosen || (handed[hole] === true && handed[chosen] === true);
        return all + (choices[hole]?.[varies ? alternative : 0] ?? "") + text;
      }, "");
    return [form(-1, 0), ...choices.flatMap((options, index) => options.slice(1).map((_, other) => form(index, other + 1)))];
  }

  /** The possible contents of a placeholder. */
  #fillings(template: Template, hole: string, before: string): string[] {
    const code = hole.trim();
    const name = /^[A-Za-z_$]+/.exec(code)?.[0] ?? "";
    if (name === "now") return [NOW];
    if (name === "members")
      return this.#templates.filter((one) => one.isSql && MEMBERS.includes(one.owner)).flatMap((one) => this.forms(one));
    const list = SETS.get(name);
    if (list !== undefined) return [list];
    if (name === "andEquals") return ["", `AND ${/fragment\("(\w+)"/.exec(code)?.[1]} = ?`];
    const fragments = [...code.matchAll(/fragment\("([^"]*)"/g)].map(([, text]) => text ?? "");
    if (code.startsWith("fragment(") && fragments.length > 0) return fragments;
    const inner = [...code.matchAll(/sql`([^`$]*)`/g)].map(([, text]) => text ?? "");
    if (code.includes("?") && inner.length > 0) return inner;
    const named = this.#named(template, name);
    if (named.length > 0) return named;
    if (!/\b(WHERE|AND|OR|ON|IN|FROM|INTO|UPDATE|SET|TABLE|NOT|SELECT)\s*\(?\s*$/.test(before) && /\S/.test(before)) return ["?"];
    if (!/^\w+$/.test(code)) return ["?"];
    const handed = this.#handedOver(template, before);
    if (handed.length > 0) return handed;
    return [new RegExp(`\\b${code}: (Statement|Fragment)`).test(this.#parameters(template)) ? UNREAD : "?"];
  }

  /** A constant of the file, or of another file; or a function that returns SQL. */
  #named(template: Template, name: string): string[] {
    if (name === "") return [];
    const source = this.#sources.get(template.file) ?? "";
    const local = new RegExp(`const ${name} = (fragment\\([^;]*);`).exec(source)?.[1];
    const texts = [...(local ?? "").matchAll(/fragment\("([^"]*)"/g)].map(([, text]) => text ?? "");
    const plain = new RegExp(`const ${name} = "([^"]*)";`).exec(source)?.[1];
    if (texts.length > 0) return texts;
    if (plain !== undefined && /fragment/.test(template.holes.find((hole) => hole.includes(name)) ?? "")) return [plain];
    const called = new RegExp(`const ${name} = (\\w+)\\(`).exec(source)?.[1];
    if (called !== undefined && called !== name && called !== "fragment") return this.#named(template, called);
    const all = this.#templates.filter((one) => one.isSql && one.owner === name && one !== template);
    const near = all.filter((one) => one.file === template.file);
    const imported = new RegExp(`import[^;]*\\b${name}\\b`).test(source) ? all : [];
    return (near.length > 0 ? near : imported).flatMap((one) => this.forms(one));
  }

  /** Callers' arguments for a part of a function's statement. */
  #handedOver(template: Template, before: string): string[] {
    const call = new RegExp(`\\b${template.owner}\\(([^;]*)$`);
    const callers = this.#templates.filter((one) => one.isSql && isOpen(call.exec(one.before)?.[1]));
    if (/\b(FROM|INTO|UPDATE)\s*$/.test(before))
      return callers.flatMap((one) => /fragment\("(\w+)"/.exec(call.exec(one.before)?.[1] ?? "")?.[1] ?? []);
    return callers.flatMap((one) => this.forms(one));
  }

  /** The declared parameters of a function. */
  #parameters({ file, owner }: Template): string {
    return new RegExp(`function ${owner}\\b[^(]*\\(([^{]*)\\{`).exec(this.#sources.get(file) ?? "")?.[1] ?? "";
  }
}

/** True while the call with arguments that begin with this text is not closed. */
function isOpen(given: string | undefined): boolean {
  if (given === undefined || given.includes("function ")) return false;
  let depth = 0;
  for (const character of given) {
    depth += character === "(" ? 1 : character === ")" ? -1 : 0;
    if (depth < 0) return false;
  }
  return true;
}

/** A source without its comments. */
export function withoutComments(source: string): string {
  return source.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/(^|\s)\/\/.*$/gm, "$1");
}

function templatesOf(file: string, source: string): Template[] {
  const found: Template[] = [];
  for (let at = source.indexOf("`"); at >= 0; at = source.indexOf("`", at + 1)) {
    at = read(file, source, at, found);
  }
  return found;
}

/** Reads the template literal that begins at a backtick, and those in its placeholders. Returns its end position. */
function read(file: string, source: string, start: number, found: Template[]): number {
  const texts: string[] = [];
  const holes: string[] = [];
  let text = "";
  let at = start + 1;
  for (; at < source.length && source[at] !== "`"; at++) {
    if (source[at] === "\\") text += source[++at];
    else if (source[at] === "$" && source[at + 1] === "{") {
      const from = at + 2;
      at++;
      for (let depth = 1; depth > 0 && at < source.length; ) {
        at++;
        if (source[at] === "`") at = read(file, source, at, found);
        else if (source[at] === "{") depth++;
        else if (source[at] === "}") depth--;
      }
      holes.push(source.slice(from, at));
      texts.push(text);
      text = "";
    } else text += source[at];
  }
  texts.push(text);
  const before = source.slice(Math.max(0, start - 300), start);
  const constant = /const (\w+)(?:: \w+)? = (?:fragment\(\s*)?(?:sql)?$/.exec(before)?.[1];
  const isSql = /(\bsql|fragment\(\s*)$/.test(before) || (constant !== undefined && STATEMENT.test(texts[0] ?? ""));
  found.push({ file, owner: constant ?? ownerOf(source.slice(0, start)), texts, holes, before, isSql });
  return at;
}

function ownerOf(before: string): string {
  return [...before.matchAll(/^(?:export )?(?:async )?(?:const|function) ([A-Za-z_$]+)/gm)].at(-1)?.[1] ?? "";
}
