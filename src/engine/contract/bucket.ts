import pRetry from "p-retry";
import { MillraceError, messageOf } from "./errors.ts";

/** R2 has single failures ("We encountered an internal error. Please try again."): both calls may be repeated, because an object's name is made from what it holds. */
const BLIP = { retries: 4, minTimeout: 40, maxTimeout: 600, randomize: true };

/** Stores JSON text under a name, repeating over blips. Errors: `unavailable` when R2 goes on failing; a repeat of the call is safe. */
export function putJson(bucket: R2Bucket, path: string, text: string): Promise<unknown> {
  return steadily(`write ${path}`, () => bucket.put(path, text, { httpMetadata: { contentType: "application/json" } }));
}

/**
 * The value that is stored under a name, repeating over blips; undefined when there is none, or no such name could be. Errors: `invalid_payload`
 * when it is not JSON, `unavailable` when R2 goes on failing.
 */
export async function getJson(bucket: R2Bucket, path: string): Promise<unknown> {
  const text = await steadily(`read ${path}`, () => textAt(bucket, path));
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own words would quote what is stored there.
    throw new MillraceError("invalid_payload", `What R2 holds at ${path} is not JSON: store JSON there, or refer to where it is.`);
  }
}

async function textAt(bucket: R2Bucket, path: string): Promise<string | undefined> {
  try {
    return await (await bucket.get(path))?.text();
  } catch (error) {
    if (IMPOSSIBLE_NAME.test(messageOf(error))) return undefined;
    throw error;
  }
}

/** R2's words for a name that no object can have (too long, not well-formed): however often it is asked for, nothing is there. */
const IMPOSSIBLE_NAME = /object name is not valid|\(10020\)/;

async function steadily<T>(what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await pRetry(call, BLIP);
  } catch (cause) {
    throw new MillraceError("unavailable", `R2 could not ${what}: ${messageOf(cause)} Try again in a few seconds.`, {
      cause,
      delayMs: 5000,
    });
  }
}
