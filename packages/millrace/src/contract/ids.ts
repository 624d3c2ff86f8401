import { createHmac } from "node:crypto";
import canonicalize from "canonicalize";
import type { Envelope } from "./envelope.ts";
import { MillraceError, messageOf } from "./errors.ts";
import { sha256 } from "./sha256.ts";
import { textOf } from "./text.ts";

/**
 * The instance's name: 32 lowercase hex characters, a pure function of whose work it is, which workflow does it and its key.
 * Hashed because the platform allows 100 characters of a small alphabet, and business keys are longer and freer than that.
 */
export function instanceId(tenantId: string, workflow: string, idempotencyKey: string): string {
  return digest("instance", tenantId, workflow, idempotencyKey);
}

/** The platform's name of what works on an instance now: its own, or that of the undo (an action's id) that takes it back. */
export function platformId(instanceId: string, undo: string | null): string {
  return undo === null ? instanceId : digest("undo", instanceId, undo);
}

/** The id of the nth event a step emits: the same at every attempt, restart and relay, so that whoever reads it can tell a repeat. */
export function eventKey(entry: EntryKey, index: number): string {
  return `${entry.instanceId}.${digest("event", entry.instanceId, entry.step, entry.item, String(entry.generation), String(index)).slice(0, 16)}`;
}

/** A message's own id: its sender keeps it in the outbox under this name, its consumer confirms it by the same. */
export function messageId(envelope: Pick<Envelope, "tenant_id" | "message_type" | "idempotency_key" | "causation_id">): string {
  return digest("message", envelope.tenant_id, envelope.message_type, envelope.idempotency_key, envelope.causation_id);
}

/** An event's id for the runs that wait for it: whoever sends it again under its key, and for whatever cause, it is the same event. */
export function signalId(envelope: Pick<Envelope, "tenant_id" | "message_type" | "idempotency_key">): string {
  return digest("signal", envelope.tenant_id, envelope.message_type, envelope.idempotency_key);
}

/** The name of a message's row in the outbox. One that an operator put back has a row of its own, which no older copy can confirm. */
export function outboxId(envelope: Parameters<typeof messageId>[0] & { replay?: string | undefined }): string {
  return envelope.replay === undefined ? messageId(envelope) : digest("replay", messageId(envelope), envelope.replay);
}

/**
 * SHA-256 of the canonical (RFC 8785) payload: tells a repeated request from a reused key. Anything has one, and none fails for what its
 * payload holds.
 */
export function fingerprintOf(payload: unknown): string {
  return sha256(canonicalText(payload));
}

/** Half of a surrogate pair or a number beyond JSON's has no canonical form, but a text, which is no other payload's canonical one. */
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
 * Names one inbox entry: which step of which instance, for which item, in which generation. No attempt number: every attempt is the same
 * work.
 */
export interface EntryKey {
  instanceId: string;
  step: string;
  /** The data key that tells parallel calls of one step apart; "" for a step that runs once. */
  item: string;
  /** Starts at 1; grows only when an operator asks for the effect again. */
  generation: number;
}

/** An entry as one opaque, URL-safe text: the id people use to resolve a doubt. */
export function formatEntryKey(key: EntryKey): string {
  return Buffer.from(JSON.stringify([key.instanceId, key.step, key.item, key.generation])).toString("base64url");
}

/** The reverse of `formatEntryKey`; undefined for anything it did not write. */
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

/** The idempotency key an upstream gets: an HMAC, so that no outsider can guess a key and spend it first. 32 hex characters. */
export function upstreamKey(secret: string, entry: EntryKey): string {
  return signed(secret, entry.instanceId, entry.step, entry.item, String(entry.generation));
}

/** 32 hex characters over parts that nobody can make without the secret. Errors: `config_invalid` without one. */
export function signed(secret: string, ...parts: string[]): string {
  assertSecret(secret);
  return createHmac("sha256", secret).update(JSON.stringify(parts)).digest("hex").slice(0, 32);
}

/** Errors: `config_invalid` where nothing can be signed. */
export function assertSecret(secret: string): void {
  if (secret) return;
  throw new MillraceError(
    "config_invalid",
    "MILLRACE_KEY is not set. Set it with: wrangler secret put MILLRACE_KEY (locally: a line in .dev.vars).",
  );
}

/** A token that marks whose attempt wrote a row: 24 hex characters. A UUID takes the runtime a fraction of what random bytes do. */
export function attemptToken(): string {
  return crypto.randomUUID().replaceAll("-", "").slice(0, 24);
}

/** 32 hex characters over parts that cannot run into each other. */
export function digest(...parts: string[]): string {
  return sha256(JSON.stringify(parts)).slice(0, 32);
}
