import { expect } from "vitest";
import { type Json, send } from "../../api/client.ts";
import { type Curl, filled } from "./curl.ts";

/** Runs a command of a document, holds the answer against what is written under it, and gives it back. */
export async function follow(curl: Curl, lookUp: (name: string) => string): Promise<Json> {
  const headers = curl.headers.map((line) => filled(line, lookUp)).map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string]);
  const request = { method: curl.method, headers, ...(curl.body && { body: filled(curl.body, lookUp) }) };
  const { status, body } = await send(filled(curl.url, lookUp), request);
  expect({ status, body }, curl.text).toEqual({ status: curl.status, body: curl.answer === undefined ? body : shown(curl.answer) });
  return body;
}

/** The reader's own `NAME="…"` lines, as the first block of a document has them. */
export function readAssignments(shell: string, variables: Map<string, string>): void {
  for (const [, name = "", value = ""] of shell.matchAll(/^(\w+)="(.*)"$/gm)) {
    variables.set(
      name,
      value.replaceAll(/\$(\w+)/g, (_, other) => variables.get(other) ?? ""),
    );
  }
}

/** What a document shows of an answer: named fields only, lists by some of their items, `"…"` for any text. */
function shown(value: unknown): unknown {
  if (value === "…") return expect.any(String);
  if (Array.isArray(value)) return value.length === 0 ? [] : expect.arrayContaining(value.map(shown));
  if (typeof value !== "object" || value === null) return value;
  return expect.objectContaining(Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shown(inner)])));
}
