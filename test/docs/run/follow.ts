import { expect, vi } from "vitest";
import { type Json, send } from "../../api/client.ts";
import { fencesOf } from "../markdown.ts";
import { type Curl, curlsOf, filled } from "./curl.ts";
import { shown } from "./shown.ts";

/** The environment variables of a document's commands. */
interface Reader {
  /** The state of the tutorial's reader before the first command. */
  given: Record<string, string>;
  /** The state of the tutorial's reader at this command. */
  before?: (curl: Curl) => Promise<unknown>;
  /** The values that a reader copies from a response, by the names that later commands use. */
  copied?: (body: Json, curl: Curl) => Record<string, string | null | undefined>;
}

/** Runs a document's commands from the first to the last, as a reader would. Returns the number of commands. */
export async function followDocument(document: string, { given, before, copied }: Reader): Promise<number> {
  const shells = fencesOf(document).filter(({ language }) => language === "sh");
  const variables = new Map(Object.entries({ URL: "", ...given }));
  readAssignments(shells[0]?.text ?? "", variables);
  for (const [name, value] of Object.entries({ URL: "", ...given })) variables.set(name, value);
  const lookUp = (name: string) => {
    const value = variables.get(name);
    if (value === undefined) throw new Error(`No earlier text defines $${name}.`);
    return value;
  };
  const curls = shells.flatMap(({ text }) => (text.includes("curl ") ? curlsOf(text) : []));
  for (const curl of curls) {
    await before?.(curl);
    // A read that is too early is retried; a write is sent once.
    const ask = () => follow(curl, lookUp);
    const body = await (curl.method === "GET" ? vi.waitFor(ask, { timeout: 30_000, interval: 100 }) : ask());
    for (const [name, value] of Object.entries(copied?.(body, curl) ?? {})) if (value) variables.set(name, value);
  }
  return curls.length;
}

/** Runs a command of a document, compares the response with the text under it, and returns the response. */
export async function follow(curl: Curl, lookUp: (name: string) => string): Promise<Json> {
  const headers = curl.headers.map((line) => filled(line, lookUp)).map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string]);
  const text = curl.body && filled(curl.body, lookUp);
  // curl sets the length of its body itself.
  if (text) headers.push(["content-length", String(new TextEncoder().encode(text).length)]);
  const request = { method: curl.method, headers, ...(text && { body: text }) };
  const { status, body } = await send(filled(curl.url, lookUp), request);
  expect({ status, body }, curl.text).toEqual({ status: curl.status, body: curl.answer === undefined ? body : shown(curl.answer) });
  return body;
}

/** The reader's own `NAME="…"` lines, from the first block of a document. */
export function readAssignments(shell: string, variables: Map<string, string>): void {
  for (const [, name = "", value = ""] of shell.matchAll(/^(\w+)="(.*)"$/gm)) {
    variables.set(
      name,
      value.replaceAll(/\$(\w+)/g, (_, other) => variables.get(other) ?? ""),
    );
  }
}
