import { causeId, stepOf } from "../../contract/cause.ts";
import { type Envelope, envelopeSchema } from "../../contract/envelope.ts";
import { codeOf, detailOf, messageOf } from "../../contract/errors.ts";
import { type Hide, hideNothing, shownCode } from "../../contract/hide.ts";
import { digest, fingerprintOf } from "../../contract/ids.ts";
import { byteLength } from "../../contract/limits.ts";
import { beginning, shortened, textOf } from "../../contract/text.ts";
import type { DeadLetter } from "../../store/dead-letters.ts";

/** What is known of a message when it is given up. */
export interface GivenUp {
  readonly queue: string;
  readonly body: unknown;
  readonly error: unknown;
  /** Default a code of errors.ts, or `exhausted`. */
  readonly reason?: string;
  readonly attempts: number;
  readonly firstAt: number;
  /** The instance whose row says that it never started. */
  readonly instanceId?: string | null;
  /** When its first and its last failing attempt were, where that is known; default unknown, and now. */
  readonly firstAttemptAt?: number | null;
  readonly lastAttemptAt?: number | null;
  /** Hides in its code and its step what the message withholds: they name its cause, metrics and alerts. Default nothing. */
  readonly hide?: Hide;
}

/** Describes a message that was refused at the door, or that ran out of tries. */
export function deadLetter({ queue, body, error, attempts, firstAt, instanceId, hide = hideNothing, ...given }: GivenUp): DeadLetter {
  const reason = shownCode(hide, given.reason ?? codeOf(error) ?? "exhausted");
  const messageType = shownField(body, "message_type");
  const { step: named = null, upstreamStatus = null, issues = null } = detailOf(error);
  const step = hide(named);
  return {
    id: letterId(queue, body),
    queue,
    body: bodyText(body),
    tenantId: nameIn(body, "tenant_id") ?? null,
    messageType,
    idempotencyKey: shownField(body, "idempotency_key"),
    correlationId: shownField(body, "correlation_id"),
    reason,
    error: beginning(messageOf(error), 1000),
    issues,
    attempts,
    firstAt,
    instanceId: instanceId ?? null,
    step: step && stepOf(step),
    upstreamStatus,
    cause: causeId({ place: queue, messageType, step, code: reason, message: messageOf(error) }),
    firstAttemptAt: given.firstAttemptAt ?? null,
    lastAttemptAt: given.lastAttemptAt ?? null,
  };
}

/**
 * Names a message on its queue by everything it says, never by a delivery: all copies of it have one letter, and what is sent again with
 * another version, kind or place of its payload is another message. One that an operator put back is another, too.
 */
export function letterId(queue: string, body: unknown): string {
  const envelope = envelopeIn(body);
  const names = NAMES.map((field) => textField(body, field));
  return digest(
    "dead-letter",
    queue,
    fingerprintOf(isWritable(body) ? plain(envelope ? saidBy(envelope) : body) : [bodyText(body), names]),
  );
}

/** As JSON would have it: bytes, maps and sets that differ are told apart. */
function plain(body: unknown): unknown {
  try {
    return JSON.parse(textOf(body));
  } catch {
    return body;
  }
}

const NAMES = ["tenant_id", "message_type", "idempotency_key", "causation_id", "replay"];

/** Without what tells copies of one message apart: our proof, and what the router writes anew when it follows an event again. */
function saidBy({ acceptance: _proof, created_at: _when, traceparent: _hop, tracestate: _state, ...said }: Envelope): object {
  return said;
}

/** The envelope of a message that may be anything; undefined when it has none. */
export function envelopeIn(body: unknown): Envelope | undefined {
  return isWritable(body) ? envelopeSchema.safeParse(body).data : undefined;
}

/**
 * Bytes of a message that are kept. A queue carries 128 KB, which may be several times as much once it is JSON; D1 takes less than 2 MB for
 * a row.
 */
const MAX_BODY_BYTES = 900_000;
/** Characters of a field that are kept beside the message. */
const MAX_SHOWN_CHARACTERS = 500;
/** Values that a message may hold: 128 KB have room for fewer, unless they are the holes of a list, or one object many times over. */
const MAX_VALUES = 500_000;

/**
 * Anything as JSON text. What has none (it is nested too deeply, or is no JSON at all) or too much of it is described instead: a letter
 * must be storable whatever came.
 */
function bodyText(body: unknown): string {
  const described = (why: string) => JSON.stringify(`A ${typeof body} that ${why}`);
  if (!isWritable(body)) return described(`holds more than ${MAX_VALUES} values, or lists with as many holes: it is not kept.`);
  try {
    const text = textOf(body);
    const bytes = byteLength(text);
    if (bytes <= MAX_BODY_BYTES) return text;
    return described(`has ${bytes} bytes as JSON, of which the beginning is kept: ${shortened(text, 1000)}`);
  } catch (error) {
    return described(`has no JSON text: ${beginning(messageOf(error), 200)}`);
  }
}

/** True for what can be written out at all: neither a cycle, nor a few bytes that stand for millions of values. */
function isWritable(body: unknown): boolean {
  const pending = [body];
  let left = MAX_VALUES;
  while (pending.length > 0) {
    const value = pending.pop();
    left -= Array.isArray(value) ? value.length : 1;
    if (left < 0) return false;
    if (typeof value === "object" && value !== null) for (const one of Object.values(value)) pending.push(one);
  }
  return true;
}

type Name = "tenant_id" | "subject" | "idempotency_key" | "correlation_id" | "source" | "kind" | "message_type";

/** A name in what may be an envelope; undefined when there is none that an envelope may hold. */
export function nameIn(body: unknown, field: Name): string | undefined {
  const name = envelopeSchema.shape[field].safeParse(textField(body, field)).data;
  return name?.isWellFormed() ? name : undefined;
}

/** What people read of a field: whatever came, it is short and well-formed. */
function shownField(body: unknown, field: string): string | null {
  const text = textField(body, field);
  return text === null ? null : shortened(text, MAX_SHOWN_CHARACTERS);
}

/** A string field of what may be an envelope. */
export function textField(body: unknown, field: string): string | null {
  const value = typeof body === "object" && body !== null ? (body as Record<string, unknown>)[field] : null;
  return typeof value === "string" ? value : null;
}
