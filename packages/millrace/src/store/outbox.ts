import type { Envelope } from "../contract/envelope.ts";
import { outboxId } from "../contract/ids.ts";
import { among, fragment, now, type RowStatement, type Statement, sql } from "../contract/sql.ts";
import { CONFIRM_WITHIN_MS } from "../contract/within.ts";
import { wasApplied } from "./actions.ts";
import { askForChildStart, insertChild, type NewChild } from "./instances/children.ts";
import { waitForChild } from "./waits.ts";

/** A message in the outbox. */
export interface Outgoing {
  /** The id of the message, which the consumer's confirmation contains. */
  id: string;
  queue: string;
  delaySeconds: number;
  /** The envelope of the message as JSON. */
  body: string;
  /** The child instance that the message starts. Its row replaces the row in the outbox, because the keeper starts accepted instances. */
  child?: NewChild;
}

/** Stores a message until its consumer confirms it. */
export function insertOutgoing({ id, queue, body, delaySeconds }: Outgoing): RowStatement {
  return { text: INSERT_OUTGOING, row: { id, queue, body, delaySeconds } };
}

/** The statements that store a message of a step: the message, or the child that the message starts. */
export function storeOutgoing(message: Outgoing): RowStatement[] {
  const { child } = message;
  return child ? [insertChild(child), ...(child.flow ? [askForChildStart(child.id)] : []), waitForChild(child)] : [insertOutgoing(message)];
}

const INSERT_OUTGOING = `
  INSERT INTO millrace_outbox (id, queue, body, delay_s, due_at)
  SELECT value->>'id', value->>'queue', value->>'body', value->>'delaySeconds',
    ${now.fragment} + (value->>'delaySeconds') * 1000 + ${CONFIRM_WITHIN_MS}
  FROM json_each(?1) WHERE true
  ON CONFLICT (id) DO NOTHING`;

/**
 * Stores the messages of outside events whose keys are new. Each JSON row has an event's `id` and `message`. The statement must precede the
 * insert of the events' keys.
 */
export function insertStatedMessages(rows: string): Statement {
  return sql`
    INSERT INTO millrace_outbox (id, queue, body, due_at)
    SELECT value->'message'->>'id', value->'message'->>'queue', value->'message'->>'body', ${now} + ${CONFIRM_WITHIN_MS}
    FROM json_each(${rows}) WHERE NOT EXISTS (SELECT 1 FROM millrace_stated_events WHERE millrace_stated_events.id = unhex(value->>'id'))
    ON CONFLICT (id) DO NOTHING`;
}

/** Stores messages about open dead letters that are about to be removed. Each JSON row has the id of a dead letter as `letter`. */
export function insertLastWords(rows: string): Statement {
  return sql`
    INSERT INTO millrace_outbox (id, queue, body, due_at)
    SELECT m.value->>'id', m.value->>'queue', m.value->>'body', ${now} + ${CONFIRM_WITHIN_MS} FROM json_each(${rows}) m
    WHERE EXISTS (SELECT 1 FROM millrace_dead_letters WHERE id = m.value->>'letter' AND state = 'open')
    ON CONFLICT (id) DO NOTHING`;
}

/** Stores a message if an operator's action was applied, in a statement that follows that action. */
export function sendBehind(message: Outgoing, actionId: string): Statement {
  return sql`
    INSERT INTO millrace_outbox (id, queue, body, due_at)
    SELECT ${message.id}, ${message.queue}, ${message.body}, ${now} + ${CONFIRM_WITHIN_MS}
    WHERE ${wasApplied(actionId)}
    ON CONFLICT (id) DO NOTHING`;
}

/**
 * Removes accepted messages from the engine's outbox. Returns no statement if the senders of all messages store the messages themselves.
 */
export function confirm(messages: readonly Envelope[]): Statement[] {
  const ids = messages.filter(({ outbox }) => outbox === undefined).map(outboxId);
  return ids.length === 0 ? [] : [sql`DELETE FROM millrace_outbox WHERE id IN ${among(ids)}`];
}

/**
 * Delays the next send of unconfirmed messages that a consumer still processes. A message that a consumer still processes waits for a
 * retry, which no queue metric counts, or has a slow handler.
 */
export function expectLater(messages: readonly { envelope: Envelope; delayMs: number }[]): Statement {
  const rows = messages.map(({ envelope, delayMs }) => ({ id: outboxId(envelope), delayMs }));
  return sql`
    UPDATE millrace_outbox SET due_at = max(due_at, ${now} + later.value->>'delayMs' + ${CONFIRM_WITHIN_MS}), sent_at = NULL
    FROM json_each(${JSON.stringify(rows)}) later WHERE millrace_outbox.id = later.value->>'id'`;
}

/** Maximum delay between two sends of one message. */
export const MAX_PAUSE_MS = 600_000;

/** The time of the latest send of a message. A message without a recorded send was sent when it was committed. */
export const SENT_AT = fragment(`coalesce(sent_at, due_at - ${CONFIRM_WITHIN_MS})`);

/** The results of a round in which the keeper sends unconfirmed messages. */
interface Resent {
  readonly looked: readonly string[];
  readonly sent: readonly string[];
  /** The errors of the messages that were not sent, by id. */
  readonly errors: Readonly<Record<string, string>>;
}

/** Records checks and sends of messages. Each message has a separate backoff. */
export function noteResent({ looked, sent, errors }: Resent): Statement {
  return sql`
    UPDATE millrace_outbox SET attempts = attempts + 1,
      sent_at = iif(id IN ${among(sent)}, ${now}, ${SENT_AT}),
      error = json_extract(${JSON.stringify(errors)}, '$."' || id || '"'),
      due_at = ${now} + min(${CONFIRM_WITHIN_MS} * (1 << min(attempts, 6)), ${MAX_PAUSE_MS})
    WHERE id IN ${among(looked)}`;
}

/** Removes messages from the outbox after their lanes have stored these messages. */
export function removeInLane(ids: readonly string[]): Statement {
  return sql`DELETE FROM millrace_outbox WHERE id IN ${among(ids)}`;
}

/** The condition that a message was sent at least the given number of times, and that the latest send failed. */
export function isStuck(tries: number): Statement {
  return sql`attempts >= ${tries} AND error IS NOT NULL`;
}

/**
 * Removes exhausted messages. The statement must follow the insert of the messages' dead letters. The statement returns the ids of the
 * removed messages.
 */
export function removeStuck(ids: readonly string[], tries: number): Statement {
  return sql`DELETE FROM millrace_outbox WHERE id IN ${among(ids)} AND ${isStuck(tries)} RETURNING id`;
}

/** Removes a message whose dead letter an operator has skipped. The statement must follow the statement that skips the dead letter. */
export function dropOutgoing(message: Envelope, actionId: string): Statement {
  return sql`DELETE FROM millrace_outbox WHERE id = ${outboxId(message)} AND ${wasApplied(actionId)}`;
}

/**
 * Removes a tenant's messages from the outbox. The statement scans the whole outbox, which contains only unconfirmed messages. The
 * statement returns a row for each removed row.
 */
export function removeUnsentOf(tenantId: string): Statement {
  return sql`DELETE FROM millrace_outbox WHERE body->>'tenant_id' = ${tenantId} RETURNING 1 AS gone`;
}
