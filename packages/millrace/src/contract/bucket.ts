import pRetry from "p-retry";
import { codeOf, MillraceError, messageOf } from "./errors.ts";
import { within } from "./within.ts";

/** Time limit of one call of R2. A call that takes longer counts as failed, and its message or step is retried. */
const CALL_LIMIT_MS = 10_000;

/**
 * R2 has occasional failures ("We encountered an internal error. Please try again."). Reads and writes are safe to repeat, because an
 * object's name is derived from its content.
 */
const BLIP = { retries: 4, minTimeout: 40, maxTimeout: 600, randomize: true };

/** Stores JSON text under a name, with retries. Errors: `unavailable` when R2 keeps failing. Repeating the call is safe. */
export function putJson(bucket: R2Bucket, path: string, text: string): Promise<unknown> {
  return steadily(`write ${path}`, () => bucket.put(path, text, { httpMetadata: { contentType: "application/json" } }));
}

/**
 * Maximum size of an object that is read, in bytes. The size is the limit for stored payloads and outputs. An object is parsed in the
 * memory of the isolate (128 MB).
 */
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * The value stored under a name, read with retries; undefined if no object has this name, or the name is invalid in R2. Errors:
 * `invalid_payload` when the object is not JSON, `payload_too_large` above 4 MiB, `unavailable` when R2 keeps failing, and errors of
 * `check`, which is called with the text before the text is parsed.
 */
export async function getJson(bucket: R2Bucket, path: string, check?: (text: string) => void): Promise<unknown> {
  const text = await steadily(`read ${path}`, () => textAt(bucket, path));
  if (text === undefined) return undefined;
  check?.(text);
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own message would quote stored data.
    throw new MillraceError("invalid_payload", `The R2 object ${path} is not JSON: store JSON there, or correct the reference.`);
  }
}

async function textAt(bucket: R2Bucket, path: string): Promise<string | undefined> {
  try {
    const object = await bucket.get(path);
    if (object === null || object.size <= MAX_BYTES) return await object?.text();
    await object.body.cancel();
    throw new MillraceError(
      "payload_too_large",
      `The R2 object ${path} has ${object.size} bytes, and the maximum is ${MAX_BYTES} (4 MiB): split it.`,
    );
  } catch (error) {
    if (IMPOSSIBLE_NAME.test(messageOf(error))) return undefined;
    throw error;
  }
}

/** R2's error for an invalid object name (too long, not well-formed). No object can have such a name. */
const IMPOSSIBLE_NAME = /object name is not valid|\(10020\)/;

async function steadily<T>(what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await pRetry(() => within(call(), CALL_LIMIT_MS), { ...BLIP, shouldRetry: ({ error }) => codeOf(error) === undefined });
  } catch (cause) {
    if (codeOf(cause) !== undefined) throw cause;
    throw new MillraceError("unavailable", `R2 could not ${what}: ${messageOf(cause)} Try again in a few seconds.`, {
      cause,
      delayMs: 5000,
    });
  }
}
