import { expect } from "vitest";
import { type Json, send } from "../../api/client.ts";
import { type Curl, filled } from "./curl.ts";

/** The reader's own `NAME="…"` lines, as a document's first block has them. */
export function readerVariables(shell: string, token: string): Map<string, string> {
  const variables = new Map([
    ["URL", ""],
    ["TOKEN", token],
  ]);
  for (const [, name = "", value = ""] of shell.matchAll(/^(\w+)="(.*)"$/gm)) {
    variables.set(
      name,
      value.replaceAll(/\$(\w+)/g, (_, other) => variables.get(other) ?? ""),
    );
  }
  return variables;
}

/** What a document shows of an answer: named fields only, lists by some of their items, `"…"` for any text. */
function shown(value: unknown): unknown {
  if (value === "…") return expect.any(String);
  if (Array.isArray(value)) return value.length === 0 ? [] : expect.arrayContaining(value.map(shown));
  if (typeof value !== "object" || value === null) return value;
  return expect.objectContaining(Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shown(inner)])));
}

/** Sends a document's curl command, and holds the answer against what the document says of it. */
export async function run(curl: Curl, lookUp: (name: string) => string): Promise<Json> {
  const headers = curl.headers.map((line) => filled(line, lookUp)).map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string]);
  // curl says by itself how long its body is.
  if (curl.body) headers.push(["content-length", String(new TextEncoder().encode(curl.body).length)]);
  const { status, body } = await send(filled(curl.url, lookUp), { method: curl.method, headers, ...(curl.body && { body: curl.body }) });
  expect({ status, body }, curl.text).toEqual({ status: curl.status, body: curl.answer === undefined ? body : shown(curl.answer) });
  return body;
}
