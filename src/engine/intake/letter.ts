import { type Envelope, envelopeSchema } from "../contract/envelope.ts";
import { codeOf, type Issue, MillraceError, messageOf } from "../contract/errors.ts";
import { digest, fingerprintOf } from "../contract/ids.ts";
import { now, type Statement, sql } from "../contract/sql.ts";
import { textOf } from "../contract/text.ts";

/** A message nobody will deliver again, with everything known about why. */
export interface DeadLetter {
  readonly id: string;
  readonly queue: string;
  /** The message as it came, as JSON text. */
  readonly body: string;
  /** Null when it names no tenant that there could be: operators who see what is unattributed see it. */
  readonly tenantId: string | null;
  readonly messageType: string | null;
  readonly idempotencyKey: string | null;
  readonly correlationId: string | null;
  readonly reason: string;
  readonly error: string;
  readonly issues: readonly Issue[] | null;
  readonly attempts: number;
  readonly firstAt: number;
  readonly instanceId: string | null;
}

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
}

/** Describes a message that was refused at the door, or that ran out of tries. */
export function deadLetter({ queue, body, error, reason, attempts, firstAt, instanceId }: GivenUp): DeadLetter {
  return {
    id: letterId(queue, body),
    queue,
    body: bodyText(body),
    tenantId: tenantOf(body),
    messageType: textField(body, "message_type"),
    idempotencyKey: textField(body, "idempotency_key"),
    correlationId: textField(body, "correlation_id"),
    reason: reason ?? codeOf(error) ?? "exhausted",
    error: messageOf(error).slice(0, 1000),
    issues: error instanceof MillraceError ? (error.detail.issues ?? null) : null,
    attempts,
    firstAt,
    instanceId: instanceId ?? null,
  };
}

/**
 * Names a message on its queue by everything it says, never by a delivery: all copies of it have one letter, and what is sent again with another
 * version, kind or place of its payload is another message. One that an operator put back is another, too.
 */
export function letterId(queue: string, body: unknown): string {
  const envelope = envelopeIn(body);
  return digest("dead-letter", queue, fingerprintOf(envelope ? saidBy(envelope) : body));
}

/** Without what tells copies of one message apart: our proof, and what the router writes anew when it follows an event again. */
function saidBy({ acceptance: _proof, created_at: _when, traceparent: _hop, ...said }: Envelope): object {
  return said;
}

/** The envelope of a message that may be anything; undefined when it has none. */
export function envelopeIn(body: unknown): Envelope | undefined {
  return envelopeSchema.safeParse(body).data;
}

/** Stores dead letters; one that is stored already stays as it is, whatever became of it. */
export function insertDeadLetters(rows: string, still: Statement = sql`true`): Statement {
  return sql`
    INSERT INTO dead_letters (id, tenant_id, queue, message_type, idempotency_key, correlation_id, instance_id, body, reason, issues, error, attempts, first_at, captured_at)
    SELECT l.value->>'id', l.value->>'tenantId', l.value->>'queue', l.value->>'messageType', l.value->>'idempotencyKey', l.value->>'correlationId',
      l.value->>'instanceId', l.value->>'body', l.value->>'reason', l.value->'issues', l.value->>'error', l.value->>'attempts', l.value->>'firstAt', ${now}
    FROM json_each(${rows}) l WHERE ${still}
    ON CONFLICT (id) DO NOTHING`;
}

/**
 * Anything as JSON text. What has none (it is nested too deeply, or is no JSON at all) is described instead: a letter must be storable
 * whatever came.
 */
function bodyText(body: unknown): string {
  try {
    return textOf(body);
  } catch (error) {
    return JSON.stringify(`A ${typeof body} that has no JSON text: ${messageOf(error).slice(0, 200)}`);
  }
}

function tenantOf(body: unknown): string | null {
  return envelopeSchema.shape.tenant_id.safeParse(textField(body, "tenant_id")).data ?? null;
}

/** A string field of what may be an envelope. */
function textField(body: unknown, field: string): string | null {
  const value = typeof body === "object" && body !== null ? (body as Record<string, unknown>)[field] : null;
  return typeof value === "string" ? value : null;
}
