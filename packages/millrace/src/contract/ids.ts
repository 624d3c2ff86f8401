import { createHash, createHmac } from "node:crypto";
import canonicalize from "canonicalize";
import type { Envelope } from "./envelope.ts";
import { MillraceError, messageOf } from "./errors.ts";
import { textOf } from "./text.ts";

/**
 * The instance id: 32 lower-case hex characters, a pure function of tenant, workflow and idempotency key. The id is a hash, because the
 * platform allows 100 characters of a small alphabet, and business keys are longer and have more characters.
 */
export function instanceId(tenantId: string, workflow: string, idempotencyKey: string): string {
  return digest("instance", tenantId, workflow, idempotencyKey);
}

/**
 * The platform's id of the current run: the instance's id, or a hash of the instance and its undo. `undo` is the id of an operator's
 * action.
 */
export function platformId(instanceId: string, undo: string | null): string {
  return undo === null ? instanceId : digest("undo", instanceId, undo);
}

/** The id of the nth event of a step: the same for every attempt, restart and repeated send, so that receivers can deduplicate. */
export function eventKey(entry: EntryKey, index: number): string {
  return `${entry.instanceId}.${digest("event", entry.instanceId, entry.step, entry.item, String(entry.generation), String(index)).slice(0, 16)}`;
}

/** The id of a message, which identifies the message's row in the outbox and the consumer's confirmation. */
export function messageId(envelope: Pick<Envelope, "tenant_id" | "message_type" | "idempotency_key" | "causation_id">): string {
  return digest("message", envelope.tenant_id, envelope.message_type, envelope.idempotency_key, envelope.causation_id);
}

/** The id of an event for the instances that wait for the event. Events with the same key have the same id, regardless of their cause. */
export function signalId(envelope: Pick<Envelope, "tenant_id" | "message_type" | "idempotency_key">): string {
  return digest("signal", envelope.tenant_id, envelope.message_type, envelope.idempotency_key);
}

/** The id of a message's outbox row. A replayed message has its own row, which no older copy of the message can confirm. */
export function outboxId(envelope: Parameters<typeof messageId>[0] & { replay?: string | undefined }): string {
  return envelope.replay === undefined ? messageId(envelope) : digest("replay", messageId(envelope), envelope.replay);
}

/**
 * SHA-256 of the canonical (RFC 8785) payload: distinguishes a repeated request from a reused key. The function accepts any value and never
 * throws.
 */
export function fingerprintOf(payload: unknown): string {
  return sha256(canonicalText(payload));
}

/**
 * A payload with half of a surrogate pair, or with a number that JSON cannot represent, has no canonical form. The text that stands for
 * such a payload differs from every canonical text.
 */
function canonicalText(payload: unknown): string {
  try {
    return canonicalize(payload) ?? "null";
  } catch (cause) {
    try {
      return `not canonical: ${textOf(payload)}`;
    } catch {
      return `no text: ${messageOf(cause)}`;
    }
  }
}

/**
 * The key of an inbox entry consists of instance, step, item and generation. The key contains no attempt number, because all attempts are
 * the same work.
 */
export interface EntryKey {
  instanceId: string;
  step: string;
  /** The key of an item, which distinguishes parallel calls of one step; "" for a step that runs once. */
  item: string;
  /** The generation starts at 1, and is incremented only when an operator requests the effect again. */
  generation: number;
}

/** An inbox entry as one opaque, URL-safe string, which is the id by which operators resolve an unknown outcome. */
export function formatEntryKey(key: EntryKey): string {
  return Buffer.from(JSON.stringify([key.instanceId, key.step, key.item, key.generation])).toString("base64url");
}

/** The reverse of `formatEntryKey`; undefined for a string that is no encoded entry. */
export function parseEntryKey(text: string): EntryKey | undefined {
  try {
    const [id, step, item, generation] = JSON.parse(Buffer.from(text, "base64url").toString());
    if (typeof id !== "string" || typeof step !== "string" || typeof item !== "string" || !Number.isSafeInteger(generation))
      return undefined;
    return { instanceId: id, step, item, generation };
  } catch {
    return undefined;
  }
}

/**
 * The idempotency key for an upstream: an HMAC, so that outsiders cannot guess a key and use the key first. The key has 32 hex characters.
 */
export function upstreamKey(secret: string, entry: EntryKey): string {
  return signed(secret, entry.instanceId, entry.step, entry.item, String(entry.generation));
}

/** An HMAC of the given parts, 32 hex characters. Errors: `config_invalid` without a secret. */
export function signed(secret: string, ...parts: string[]): string {
  assertSecret(secret);
  return createHmac("sha256", secret).update(JSON.stringify(parts)).digest("hex").slice(0, 32);
}

/** Refuses a missing secret. Errors: `config_invalid`. */
export function assertSecret(secret: string): void {
  if (secret) return;
  throw new MillraceError(
    "config_invalid",
    "MILLRACE_KEY is not set. Set it with: wrangler secret put MILLRACE_KEY (locally: a line in .dev.vars).",
  );
}

/**
 * The token of the attempt that wrote a row: 24 hex characters. Creating a UUID is much faster than creating random bytes in the runtime.
 */
export function attemptToken(): string {
  return crypto.randomUUID().replaceAll("-", "").slice(0, 24);
}

/** A hash of the given parts, 32 hex characters. The parts are encoded so that different lists of parts never give the same string. */
export function digest(...parts: string[]): string {
  return sha256(JSON.stringify(parts)).slice(0, 32);
}

/** SHA-256 of a string, as 64 hex characters. */
export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
