import { causeId, stepOf } from "../../contract/cause.ts";
import { type Envelope, envelopeSchema } from "../../contract/envelope.ts";
import { codeOf, detailOf, messageOf } from "../../contract/errors.ts";
import { type Hide, hideNothing, shownCode } from "../../contract/hide.ts";
import { digest, fingerprintOf } from "../../contract/ids.ts";
import { byteLength } from "../../contract/limits.ts";
import { beginning, shortened, textOf } from "../../contract/text.ts";
import type { DeadLetter } from "../../store/dead-letters.ts";

export interface GivenUp {
  readonly queue: string;
  readonly body: unknown;
  readonly error: unknown;
  /** The reason of the dead letter. Default: the error's code, or `exhausted`. */
  readonly reason?: string;
  readonly attempts: number;
  readonly firstAt: number;
  /** The instance that is marked as never started. */
  readonly instanceId?: string | null;
  /**
   * The times of the first and the last failed attempt. Default: unknown for the first attempt, and the present time for the last attempt.
   */
  readonly firstAttemptAt?: number | null;
  readonly lastAttemptAt?: number | null;
  /** Redacts sensitive values in the dead letter's code and step, which appear in metrics and alerts. Default: nothing. */
  readonly hide?: Hide;
}

/** The dead letter of a refused or exhausted message. */
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
 * The id of a message's dead letter, derived from the content and the queue, never from a delivery. Therefore all copies of a message have
 * the same dead letter. A message with a different version, kind or payload location is a different message, and so is a message that an
 * operator replayed.
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

/** Converts a body to JSON values, so that different bytes, maps and sets have different digests. */
function plain(body: unknown): unknown {
  try {
    return JSON.parse(textOf(body));
  } catch {
    return body;
  }
}

const NAMES = ["tenant_id", "message_type", "idempotency_key", "causation_id", "replay"];

/** A message without the fields in which its copies differ: the proof, and the fields that a route sets for each copy. */
function saidBy({ acceptance: _proof, created_at: _when, traceparent: _hop, tracestate: _state, ...said }: Envelope): object {
  return said;
}

/** The envelope in a message's body; undefined if the body is not a valid envelope. */
export function envelopeIn(body: unknown): Envelope | undefined {
  return isWritable(body) ? envelopeSchema.safeParse(body).data : undefined;
}

/**
 * Maximum bytes of a stored message. A queue's message of 128 KB may be several times as large in JSON, and D1 accepts less than 2 MB per
 * row.
 */
const MAX_BODY_BYTES = 900_000;
/** Maximum length of a separately stored field, in characters. */
const MAX_SHOWN_CHARACTERS = 500;
/**
 * Maximum number of values in a message. A message of 128 KB has fewer values, unless the message contains lists with holes or repeated
 * references to the same object.
 */
const MAX_VALUES = 500_000;

/**
 * The body of a message as a JSON string. If the body is too large, too deeply nested, or not JSON, the string describes the body instead.
 * Therefore every dead letter can be stored.
 */
function bodyText(body: unknown): string {
  const described = (why: string) => JSON.stringify(`A value of the type ${typeof body} that ${why}`);
  if (!isWritable(body)) return described(`holds more than ${MAX_VALUES} values, or lists with as many holes: its content is not stored.`);
  try {
    const text = textOf(body);
    const bytes = byteLength(text);
    if (bytes <= MAX_BODY_BYTES) return text;
    return described(`has ${bytes} bytes as JSON, of which only the beginning is stored: ${shortened(text, 1000)}`);
  } catch (error) {
    return described(`has no JSON text: ${beginning(messageOf(error), 200)}`);
  }
}

/**
 * True for a value that can be serialized. A value with a cycle cannot be serialized, nor can a small value that expands to millions of
 * values.
 */
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

/** The value of a name field in a message's body; undefined if the field is missing or no valid name. */
export function nameIn(body: unknown, field: Name): string | undefined {
  const name = envelopeSchema.shape[field].safeParse(textField(body, field)).data;
  return name?.isWellFormed() ? name : undefined;
}

/** A string field of a message's body for display. The string is cut to a maximum length, and is well-formed Unicode. */
function shownField(body: unknown, field: string): string | null {
  const text = textField(body, field);
  return text === null ? null : shortened(text, MAX_SHOWN_CHARACTERS);
}

export function textField(body: unknown, field: string): string | null {
  const value = typeof body === "object" && body !== null ? (body as Record<string, unknown>)[field] : null;
  return typeof value === "string" ? value : null;
}
