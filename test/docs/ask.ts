import { expect } from "vitest";
import { type Curl, filled } from "./run/curl.ts";
import { shown } from "./run/shown.ts";

/** Sends a request over the network as curl would, and compares the response with the text under the command. */
export async function ask(curl: Curl, lookUp: (name: string) => string): Promise<Record<string, unknown>> {
  const headers = curl.headers.map(
    (line) =>
      filled(line, lookUp)
        .split(/: (.*)/s)
        .slice(0, 2) as [string, string],
  );
  const response = await fetch(filled(curl.url, lookUp), { method: curl.method, headers, body: curl.body && filled(curl.body, lookUp) });
  const body = JSON.parse((await response.text()) || "null");
  expect({ status: response.status, body }, curl.text).toEqual({
    status: curl.status,
    body: curl.answer === undefined ? body : shown(curl.answer),
  });
  return body;
}
