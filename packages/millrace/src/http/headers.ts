import type { Context, HonoRequest } from "hono";
import * as z from "zod";
import { isDotsAlone, MAX_KEY_CHARACTERS, NO_ADDRESS } from "../contract/chosen-name.ts";
import type { SaidTrace } from "../contract/trace.ts";
import { invalidRequest } from "./problem.ts";

/** An idempotency key as a string of RFC 8941: printable ASCII in quotes, with `\` before a quote or a backslash. */
const QUOTED = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/;
/** An idempotency key without quotes. An unquoted key has no commas, because a comma joins repeated headers. */
const BARE = /^[\x21-\x2b\x2d-\x7e][\x20-\x2b\x2d-\x7e]*$/;

/** Routes that change data and do not read this header refuse it. */
export function keyHeader(description: string) {
  return {
    "idempotency-key": z
      .optional(z.string())
      .describe(`${description} 1 to ${MAX_KEY_CHARACTERS} printable ASCII characters, bare (without a comma) or quoted.`),
  };
}

/** Reads `Idempotency-Key`, bare or quoted (as in the draft standard); undefined if it is absent. Errors: `invalid_payload`. */
export function idempotencyKey(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  const key = text.startsWith('"') ? QUOTED.exec(text)?.[1]?.replaceAll(/\\(.)/g, "$1") : BARE.exec(text)?.[0];
  if (key && isDotsAlone(key)) throw invalidRequest([{ path: "Idempotency-Key", message: NO_ADDRESS }]);
  if (key && key.length <= MAX_KEY_CHARACTERS) return key;
  const message = `must be 1 to ${MAX_KEY_CHARACTERS} printable ASCII characters, bare or in double quotes`;
  const isTwo = text.includes(",") && !text.startsWith('"');
  throw invalidRequest([
    { path: "Idempotency-Key", message: isTwo ? `${message}, and sent once: a key with a comma needs the quotes` : message },
  ]);
}

const REPLAYED = "Idempotency-Replayed";

export const replayedHeaderSchema = {
  [REPLAYED]: {
    description: "`true` if the request repeats an earlier one and started nothing.",
    schema: { type: "string" as const },
  },
};

export function replayedHeader({ replayed }: { replayed: boolean }): Record<string, string> {
  return replayed ? { [REPLAYED]: "true" } : {};
}

export const traceHeadersSchema = {
  traceparent: z.string().optional().describe("W3C trace context, passed on to all resulting messages."),
  tracestate: z.string().optional().describe("Passed on with `traceparent`; up to 512 characters."),
};

export function traceOf(request: HonoRequest): SaidTrace | undefined {
  const traceparent = request.header("traceparent");
  return traceparent === undefined ? undefined : { traceparent, tracestate: request.header("tracestate") };
}

/**
 * Sets headers of the response after the handler. `context.header` would copy the whole response for each header. The headers of a response
 * from `fetch` cannot be changed, so only such a response is copied.
 */
export function setHeaders(context: Pick<Context, "res" | "header">, headers: Readonly<Record<string, string>>): void {
  try {
    for (const [name, value] of Object.entries(headers)) context.res.headers.set(name, value);
  } catch {
    for (const [name, value] of Object.entries(headers)) context.header(name, value);
  }
}
