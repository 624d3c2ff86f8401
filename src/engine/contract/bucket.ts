import pRetry from "p-retry";
import { MillraceError, messageOf } from "./errors.ts";

/** R2 has single failures ("We encountered an internal error. Please try again."): both calls may be repeated, because an object's name is made from what it holds. */
const BLIP = { retries: 4, minTimeout: 40, maxTimeout: 600, randomize: true };

/** Stores JSON text under a name, repeating over blips. Errors: `unavailable` when R2 goes on failing; a repeat of the call is safe. */
export function putJson(bucket: R2Bucket, path: string, text: string): Promise<unknown> {
  return steadily(`write ${path}`, () => bucket.put(path, text, { httpMetadata: { contentType: "application/json" } }));
}

/** The value that is stored under a name, repeating over blips; undefined when there is none. Errors: `unavailable` when R2 goes on failing. */
export function getJson(bucket: R2Bucket, path: string): Promise<unknown> {
  return steadily(`read ${path}`, async () => (await bucket.get(path))?.json());
}

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
