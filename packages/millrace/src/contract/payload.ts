import { getJson, putJson } from "./bucket.ts";
import type { Envelope } from "./envelope.ts";
import { MillraceError } from "./errors.ts";
import { fingerprintOf } from "./ids.ts";
import { assertBounded, assertFewItems, byteLength } from "./limits.ts";
import { decodePayload, type MessageDefinition } from "./message.ts";

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
