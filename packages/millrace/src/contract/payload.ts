import pRetry from "p-retry";
import type { Envelope } from "./envelope.ts";
import { codeOf, MillraceError, messageOf } from "./errors.ts";
import { fingerprintOf } from "./ids.ts";
import { assertBounded, assertFewItems, byteLength } from "./limits.ts";
import { decodePayload, type MessageDefinition } from "./message.ts";
import { within } from "./within.ts";

/** A larger payload is stored in R2, because queues limit a message to 128 KB, and small messages cost less. */
const INLINE_PAYLOAD_BYTES = 32 * 1024;

type PayloadFields = Pick<Envelope, "payload_inline"> | Pick<Envelope, "payload_ref">;

/** Returns a small payload inline. Stores a larger payload in R2 under the owner's name, and never changes the stored payload. */
export async function packPayload(bucket: R2Bucket, tenantId: string, owner: string, payload: unknown): Promise<PayloadFields> {
  const text = JSON.stringify(payload) as string | undefined;
  if (text === undefined) {
    const message = `is ${typeof payload === "undefined" ? "undefined" : `a ${typeof payload}`}, which no message carries: give plain data, or null`;
    throw new MillraceError("invalid_payload", `The payload ${message}.`, { issues: [{ path: "payload", message }] });
  }
  if (byteLength(text) <= INLINE_PAYLOAD_BYTES) return { payload_inline: payload };
  const path = `payloads/${tenantId}/${owner}/${fingerprintOf(payload)}`;
  await putJson(bucket, path, text);
  return { payload_ref: `r2://${path}` };
}

/**
 * The payload of a message, fetched from R2 if needed, upcast and validated. Errors: `payload_missing`, `invalid_payload`, `unavailable`
 * when R2 keeps failing.
 */
export async function unpackPayload<Payload>(
  bucket: R2Bucket,
  definition: MessageDefinition<Payload>,
  envelope: Envelope,
): Promise<Payload> {
  return decodePayload(definition, envelope.schema_version, await rawPayload(bucket, envelope));
}

/** The payload of a message as it was sent. A reference to an object outside the tenant's folder counts as missing. */
async function rawPayload(bucket: R2Bucket, envelope: Envelope): Promise<unknown> {
  if (envelope.payload_ref === undefined) return envelope.payload_inline;
  const path = pathOf(envelope.payload_ref);
  const payload = path.startsWith(`payloads/${envelope.tenant_id}/`) ? await getJson(bucket, path, assertFewItems) : undefined;
  if (payload === undefined) {
    throw new MillraceError(
      "payload_missing",
      `The payload at ${envelope.payload_ref} is gone: put it back, or replay the message with a new one.`,
    );
  }
  assertBounded(payload, { within: 1, at: "payload" });
  return payload;
}

/**
 * The fingerprint of a message's payload, which distinguishes a repeated message from a reused key. The function needs no fetch, because a
 * reference ends with the fingerprint of its payload.
 */
export function payloadFingerprint(envelope: Envelope): string {
  if (envelope.payload_ref === undefined) return fingerprintOf(envelope.payload_inline);
  const last = envelope.payload_ref.split("/").at(-1) ?? "";
  return /^[0-9a-f]{64}$/.test(last) ? last : fingerprintOf(envelope.payload_ref);
}

export function pathOf(ref: string): string {
  return ref.slice("r2://".length);
}

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
