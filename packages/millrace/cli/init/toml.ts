import type { Change } from "./wanted.ts";

/**
 * Adds to a text in TOML. All that is there stays as it is, to the character. The caller compares the result: inline tables and dotted keys
 * are not extended.
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
    const array = new RegExp(`^[ \\t]*${key}[ \\t]*=[ \\t]*\\[`, "m").exec(text.slice(from, to));
    if (array) return extended(text, from + array.index + array[0].length, value as unknown[]);
  }
  if (table !== "" && typeof value === "object" && !Array.isArray(value))
    return `${text}\n${comment}[${path.join(".")}]\n${fields(value ?? {})}`;
  if (table === "" && typeof value === "object" && !Array.isArray(value)) return `${text}\n${comment}[${key}]\n${fields(value ?? {})}`;
  const line = `${comment}${key} = ${inline(value)}\n`;
  const { from, to, isThere } = tableIn(text, table);
  if (!isThere) return `${text}\n${comment}[${table}]\n${key} = ${inline(value)}\n`;
  // At the end of the table, but before the comments and empty lines that belong to the next one.
  const body = text.slice(from, to);
  const kept = body.replace(/(?:[ \t]*(?:#[^\n]*)?\n)*$/, (rest) => (body.length === rest.length ? rest : ""));
  const end = from + (kept.endsWith("\n") || kept === "" ? kept.length : kept.length + 1);
  return `${text.slice(0, end)}${line}${text.slice(end)}`;
}

/** Where the lines of a table are: those before the first header for the top level. */
function tableIn(text: string, table: string): { from: number; to: number; isThere: boolean } {
  const header = table === "" ? { index: 0, 0: "" } : new RegExp(`^[ \\t]*\\[${table.replaceAll(".", "\\.")}\\][^\\n]*\\n`, "m").exec(text);
  if (!header) return { from: text.length, to: text.length, isThere: false };
  const from = header.index + header[0].length;
  const next = /^[ \t]*\[/m.exec(text.slice(from));
  return { from, to: next ? from + next.index : text.length, isThere: true };
}

/** More items at the end of an array of simple values; `at` is the place after its bracket. */
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
  const before = body.trimEnd();
  const isLast = /,\s*(?:#[^\n]*)?$/.test(before);
  return `${text.slice(0, at)}${before}${isLast ? "" : ","}\n${more.map((one) => margin + one).join(",\n")}${body.slice(before.length)}${text.slice(close)}`;
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
