import * as z from "zod";
import { isDotsAlone, NO_ADDRESS } from "../contract/chosen-name.ts";
import { invalidRequest } from "./invalid-request.ts";

export const MAX_KEY_CHARACTERS = 500;
/** The string of RFC 8941: printable ASCII in quotes, where `\` stands before a quote or itself. */
const QUOTED = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/;
/** A comma is what two headers are joined by. */
const BARE = /^[\x21-\x2b\x2d-\x7e][\x20-\x2b\x2d-\x7e]*$/;

/** Documents the header for a route that reads it: every other one that changes something refuses it. */
export function keyHeader(description: string) {
  return {
    "idempotency-key": z
      .string()
      .optional()
      .meta({ description: `${description} 1 to ${MAX_KEY_CHARACTERS} printable ASCII characters, bare (without a comma) or quoted.` }),
  };
}

/**
 * Reads `Idempotency-Key`, bare as most send it or quoted as the draft standard says; undefined where there is none. Errors:
 * `invalid_payload`.
 */
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

/** Documents the header for an answer to a request that may be a repeat. */
export const replayedHeaderSchema = {
  [REPLAYED]: {
    description: "`true` if the request repeats an earlier one and started nothing.",
    schema: { type: "string" as const },
  },
};

/** The header that marks the answer to a repeat; none for a new request. */
export function replayedHeader({ replayed }: { replayed: boolean }): Record<string, string> {
  return replayed ? { [REPLAYED]: "true" } : {};
}
