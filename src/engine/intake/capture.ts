import { codeOf, type Issue, MillraceError, messageOf } from "../contract/errors.ts";
import { deadLetterId } from "../contract/ids.ts";
import { type Fragment, now, type Statement, sql } from "../contract/sql.ts";

/** A message nobody will deliver again, with everything known about why. */
export interface DeadLetter {
  readonly id: string;
  readonly queue: string;
  /** The message as it came, as JSON text. */
  readonly body: string;
  readonly reason: string;
  readonly error: string;
  readonly issues: readonly Issue[] | null;
  readonly attempts: number;
  readonly firstAt: number;
  readonly instanceId: string | null;
}

/** Describes a message that was refused at the door, or that ran out of tries. */
export function deadLetter(
  queue: string,
  message: Pick<Message, "id" | "body" | "timestamp">,
  attempts: number,
  error: unknown,
  instanceId: string | null = null,
): DeadLetter {
  return {
    id: deadLetterId(queue, message.id),
    queue,
    body: JSON.stringify(message.body) ?? "null",
    reason: codeOf(error) ?? "exhausted",
    error: messageOf(error).slice(0, 1000),
    issues: error instanceof MillraceError ? (error.detail.issues ?? null) : null,
    attempts,
    firstAt: message.timestamp.getTime(),
    instanceId,
  };
}

/** Stores dead letters; one that is stored already stays as it is. What can be read of the envelope is kept beside it for triage. */
export function insertDeadLetters(rows: string | Statement): Statement {
  return sql`
    INSERT INTO dead_letters (id, tenant_id, queue, message_type, idempotency_key, correlation_id, instance_id, body, reason, issues, error, attempts, first_at, captured_at)
    SELECT l.value->>'id', ${text("tenant_id")}, l.value->>'queue', ${text("message_type")}, ${text("idempotency_key")}, ${text("correlation_id")},
      l.value->>'instanceId', l.value->>'body', l.value->>'reason', l.value->'issues',
      coalesce((SELECT i.error->>'message' FROM instances i WHERE i.id = l.value->>'instanceId'), l.value->>'error'),
      l.value->>'attempts', l.value->>'firstAt', ${now}
    FROM json_each(${rows}) l WHERE true
    ON CONFLICT (id) DO NOTHING`;
}

/** Captures messages whose key is taken by another payload: running them would do what nobody asked under that key. */
export function captureReusedKeys(queue: string, rows: string): Statement {
  return sql`
    INSERT INTO dead_letters (id, tenant_id, queue, message_type, idempotency_key, correlation_id, instance_id, body, reason, error, attempts, first_at, captured_at)
    SELECT substr(i.id, 1, 16) || substr(a.value->>'fingerprint', 1, 16), i.tenant_id, ${queue}, a.value->'envelope'->>'message_type', i.idempotency_key,
      a.value->'envelope'->>'correlation_id', i.id, a.value->'envelope', 'idempotency_key_reused',
      'The key belongs to an earlier message with another payload: give the new work a key of its own.', 1, ${now}, ${now}
    FROM json_each(${rows}) a JOIN instances i ON i.id = a.value->>'id'
    WHERE i.fingerprint <> a.value->>'fingerprint'
    ON CONFLICT (id) DO NOTHING
    RETURNING instance_id`;
}

/** A string field of the body's envelope, if the body is an envelope at all. */
function text(field: string): Fragment {
  const path = `'$.${field}'`;
  return { fragment: `iif(json_type(l.value->>'body', ${path}) = 'text', json_extract(l.value->>'body', ${path}), NULL)` };
}
