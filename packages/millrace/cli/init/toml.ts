import type { Change } from "./wanted.ts";

/**
 * Inserts changes into TOML. The existing text is not changed. Inline tables and dotted keys are not extended, so the caller must compare
 * the result with the wanted configuration.
 */
export function editToml(text: string, changes: readonly Change[]): string {
  return changes.reduce(edit, text.endsWith("\n") || text === "" ? text : `${text}\n`);
}

function edit(text: string, { path, value, adds, why }: Change): string {
  const comment = why === undefined ? "" : `# ${why}\n`;
  const [key = ""] = path.slice(-1);
  const table = path.slice(0, -1).join(".");
  if (adds && (value as unknown[]).some((one) => typeof one === "object")) {
    const blocks = (value as object[]).map((one) => `[[${path.join(".")}]]\n${fields(one)}`);
    return `${text}\n${comment}${blocks.join("\n")}`;
  }
  if (adds) {
    const { from, to } = tableIn(text, table);
    const array = new RegExp(`^[ \\t]*${key}[ \\t]*=[ \\t]*\\[`, "m").exec(withoutTexts(text).slice(from, to));
    if (array) return extended(text, from + array.index + array[0].length, value as unknown[]);
  }
  if (table !== "" && typeof value === "object" && !Array.isArray(value))
    return `${text}\n${comment}[${path.join(".")}]\n${fields(value ?? {})}`;
  if (table === "" && typeof value === "object" && !Array.isArray(value)) return `${text}\n${comment}[${key}]\n${fields(value ?? {})}`;
  const open = inlineTable(text, path.slice(0, -1));
  if (open !== undefined) return intoInline(text, open, `${key} = ${inline(value)}`);
  const line = `${comment}${key} = ${inline(value)}\n`;
  const { from, to, isThere } = tableIn(text, table);
  if (!isThere) return `${text}\n${comment}[${table}]\n${key} = ${inline(value)}\n`;
  // Inserts at the end of the table, before the comments and blank lines that precede the next table.
  const lines = withoutTexts(text)
    .slice(from, to)
    .split(/(?<=\n)/);
  const last = lines.findLastIndex((one) => !/^[ \t]*(?:#.*)?\n?$/.test(one));
  const end = from + (last < 0 ? to - from : lines.slice(0, last + 1).join("").length);
  return `${text.slice(0, end)}${line}${text.slice(end)}`;
}

/** Replaces multi-line strings by spaces, so that offsets stay the same. */
function withoutTexts(text: string): string {
  const blank = (found: string) => (/^(?:"""|''')/.test(found) ? `"${found.slice(1, -1).replaceAll(/[^\n]/g, " ")}"` : found);
  return text.replaceAll(/"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*/g, blank);
}

/** The offset after the brace of an inline table, such as `vars = { A = "1" }`. */
function inlineTable(text: string, path: readonly string[]): number | undefined {
  const [key = ""] = path.slice(-1);
  if (key === "") return undefined;
  const { from, to } = tableIn(text, path.slice(0, -1).join("."));
  const found = new RegExp(`^[ \\t]*${key}[ \\t]*=[ \\t]*\\{`, "m").exec(withoutTexts(text).slice(from, to));
  return found ? from + found.index + found[0].length : undefined;
}

function intoInline(text: string, at: number, entry: string): string {
  const [body = ""] = /^(?:"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[^}"'\n])*/.exec(text.slice(at)) ?? [];
  const before = body.trimEnd();
  return `${text.slice(0, at)}${before}${before.trim() === "" ? " " : ", "}${entry} ${text.slice(at + body.length)}`;
}

/** The lines of a table. The top level ends at the first header. */
function tableIn(text: string, table: string): { from: number; to: number; isThere: boolean } {
  const header =
    table === ""
      ? { index: 0, 0: "" }
      : new RegExp(`^[ \\t]*\\[${table.replaceAll(".", "\\.")}\\][^\\n]*\\n`, "m").exec(withoutTexts(text));
  if (!header) return { from: text.length, to: text.length, isThere: false };
  const from = header.index + header[0].length;
  const next = /^[ \t]*\[/m.exec(withoutTexts(text).slice(from));
  return { from, to: next ? from + next.index : text.length, isThere: true };
}

/** Adds items to an array of simple values. `at` is the offset after the opening bracket of the array. */
function extended(text: string, at: number, items: readonly unknown[]): string {
  const [body = ""] = /^(?:"[^"\n]*"|'[^'\n]*'|#[^\n]*|[^\]"'#])*/.exec(text.slice(at)) ?? [];
  const close = at + body.length;
  const more = items.map(inline);
  if (!body.includes("\n")) {
    const before = body.trimEnd();
    const comma = before === "" || before.endsWith(",") ? "" : ", ";
    return `${text.slice(0, at)}${before}${comma}${more.join(", ")}${body.slice(before.length)}${text.slice(close)}`;
  }
  const margin = /\n([ \t]+)\S/.exec(body)?.[1] ?? "  ";
  const tokens = [...body.matchAll(/"[^"\n]*"|'[^'\n]*'|#[^\n]*|[^\s"'#]+/g)].filter(([token]) => !token.startsWith("#"));
  const last = tokens.at(-1);
  const end = last ? last.index + last[0].length : 0;
  const comma = last === undefined || last[0].endsWith(",") ? "" : ",";
  const rest = body.slice(end);
  return `${text.slice(0, at)}${body.slice(0, end)}${comma}${rest.trimEnd()}\n${more.map((one) => margin + one).join(",\n")}${/\s*$/.exec(rest)?.[0]}${text.slice(close)}`;
}

const fields = (object: object) =>
  Object.entries(object)
    .map(([key, value]) => `${key} = ${inline(value)}\n`)
    .join("");

function inline(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return `{ ${Object.entries(value)
    .map(([key, one]) => `${key} = ${inline(one)}`)
    .join(", ")} }`;
}
