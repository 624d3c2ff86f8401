import type { Envelope } from "../contract/envelope.ts";
import { outboxId } from "../contract/ids.ts";
import { CONFIRM_WITHIN_MS } from "../contract/patience.ts";
import { among, fragment, now, type RowStatement, type Statement, sql } from "../contract/sql.ts";
import { wasApplied } from "./actions.ts";

/** A message on its way: what the outbox holds and the relay sends. */
export interface Outgoing {
  /** The message's own id: a consumer's confirmation names it. */
  id: string;
  queue: string;
  delaySeconds: number;
  /** The envelope as JSON. */
  body: string;
}

/** Keeps a message until its consumer confirms it. */
export function insertOutgoing({ id, queue, body, delaySeconds }: Outgoing): RowStatement {
  return { text: INSERT_OUTGOING, row: { id, queue, body, delaySeconds } };
}

const INSERT_OUTGOING = `
  INSERT INTO millrace_outbox (id, queue, body, delay_s, due_at)
  SELECT value->>'id', value->>'queue', value->>'body', value->>'delaySeconds',
    ${now.fragment} + (value->>'delaySeconds') * 1000 + ${CONFIRM_WITHIN_MS}
  FROM json_each(?1) WHERE true
  ON CONFLICT (id) DO NOTHING`;

/**
 * Keeps the messages of events from outside whose keys are free: rows of an event's `id` and its `message`. Before the rows of the keys.
 */
export function insertStatedMessages(rows: string): Statement {
  return sql`
    INSERT INTO millrace_outbox (id, queue, body, due_at)
    SELECT value->'message'->>'id', value->'message'->>'queue', value->'message'->>'body', ${now} + ${CONFIRM_WITHIN_MS}
    FROM json_each(${rows}) WHERE NOT EXISTS (SELECT 1 FROM millrace_stated_events WHERE millrace_stated_events.id = unhex(value->>'id'))
    ON CONFLICT (id) DO NOTHING`;
}

/** Keeps what is said of dead letters that are forgotten, as far as they are still open: messages, each with its `letter`. */
export function insertLastWords(rows: string): Statement {
  return sql`
    INSERT INTO millrace_outbox (id, queue, body, due_at)
    SELECT m.value->>'id', m.value->>'queue', m.value->>'body', ${now} + ${CONFIRM_WITHIN_MS} FROM json_each(${rows}) m
    WHERE EXISTS (SELECT 1 FROM millrace_dead_letters WHERE id = m.value->>'letter' AND state = 'open')
    ON CONFLICT (id) DO NOTHING`;
}

/** Keeps a message that an operator's action sends, behind that action. */
export function sendBehind(message: Outgoing, actionId: string): Statement {
  return sql`
    INSERT INTO millrace_outbox (id, queue, body, due_at)
    SELECT ${message.id}, ${message.queue}, ${message.body}, ${now} + ${CONFIRM_WITHIN_MS}
    WHERE ${wasApplied(actionId)}
    ON CONFLICT (id) DO NOTHING`;
}

/** Messages that the engine's outbox keeps are taken: they need not be sent again. No statement for those that their senders keep. */
export function confirm(messages: readonly Envelope[]): Statement[] {
  const ids = messages.filter(({ outbox }) => outbox === undefined).map(outboxId);
  return ids.length === 0 ? [] : [sql`DELETE FROM millrace_outbox WHERE id IN ${among(ids)}`];
}

/**
 * Messages that are under way although nobody has confirmed them: in a back-off, which no queue's metrics count, or with a slow
 * handler. The keeper sends no copy before then.
 */
export function expectLater(messages: readonly { envelope: Envelope; delayMs: number }[]): Statement {
  const rows = messages.map(({ envelope, delayMs }) => ({ id: outboxId(envelope), delayMs }));
  return sql`
    UPDATE millrace_outbox SET due_at = max(due_at, ${now} + later.value->>'delayMs' + ${CONFIRM_WITHIN_MS}), sent_at = NULL
    FROM json_each(${JSON.stringify(rows)}) later WHERE millrace_outbox.id = later.value->>'id'`;
}

/** Longest pause between two sends of one message. */
export const MAX_PAUSE_MS = 600_000;

/** A message that nobody has looked at was sent when it was committed. The time of a look says nothing of it. */
export const SENT_AT = fragment(`coalesce(sent_at, due_at - ${CONFIRM_WITHIN_MS})`);

/** What became of messages that were due to be sent again. */
interface Resent {
  readonly looked: readonly string[];
  readonly sent: readonly string[];
  /** Why the others were not, by their ids. */
  readonly errors: Readonly<Record<string, string>>;
}

/** Messages were looked at, and sent again or not: each backs off by itself. */
export function noteResent({ looked, sent, errors }: Resent): Statement {
  return sql`
    UPDATE millrace_outbox SET attempts = attempts + 1,
      sent_at = iif(id IN ${among(sent)}, ${now}, ${SENT_AT}),
      error = json_extract(${JSON.stringify(errors)}, '$."' || id || '"'),
      due_at = ${now} + min(${CONFIRM_WITHIN_MS} * (1 << min(attempts, 6)), ${MAX_PAUSE_MS})
    WHERE id IN ${among(looked)}`;
}

/** Removes messages that their lanes have. */
export function removeInLane(ids: readonly string[]): Statement {
  return sql`DELETE FROM millrace_outbox WHERE id IN ${among(ids)}`;
}

/** The condition that no queue has taken a message at any of so many tries. */
export function isStuck(tries: number): Statement {
  return sql`attempts >= ${tries} AND error IS NOT NULL`;
}

/** Removes messages that are given up, behind their dead letters. Answers their ids. */
export function removeStuck(ids: readonly string[], tries: number): Statement {
  return sql`DELETE FROM millrace_outbox WHERE id IN ${among(ids)} AND ${isStuck(tries)} RETURNING id`;
}

/** Nothing sends a message again whose dead letter an operator has skipped. Behind that action. */
export function dropOutgoing(message: Envelope, actionId: string): Statement {
  return sql`DELETE FROM millrace_outbox WHERE id = ${outboxId(message)} AND ${wasApplied(actionId)}`;
}

/** Removes a tenant's messages that nobody has confirmed. Reads the outbox, which holds only such. Answers a row for each. */
export function removeUnsentOf(tenantId: string): Statement {
  return sql`DELETE FROM millrace_outbox WHERE body->>'tenant_id' = ${tenantId} RETURNING 1 AS gone`;
}
