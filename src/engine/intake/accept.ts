import type { Envelope } from "../contract/envelope.ts";
import { instanceId, messageId, outboxId } from "../contract/ids.ts";
import { CONFIRM_WITHIN_MS, KEEPER_PATIENCE_MS } from "../contract/patience.ts";
import { payloadFingerprint } from "../contract/payload.ts";
import { fragment, now, type Statement, sql, textChunks } from "../contract/sql.ts";
import type { Outgoing } from "../recorder/entry.ts";
import type { Identity } from "./identity.ts";
import { prove } from "./proof.ts";

/** A message that is about to become an instance. */
export interface Acceptance extends Identity {
  readonly workflow: string;
  readonly envelope: Envelope;
  /** The command queue it goes through; null when the instance is started at once. */
  readonly queue: string | null;
  readonly delaySeconds: number;
  /** All of that as JSON, which the database takes it from. */
  readonly row: string;
}

/** What the row of an acceptance says now: whose it is, too. */
export interface AcceptedRow extends Identity {
  status: string;
  deliveries: number;
  /** 1 for one that the keeper does not look at: it was believed dead. */
  unwatched?: number;
}

/** Names the instance a message becomes: the same message, the same name. */
export function acceptance(workflow: string, message: Envelope, queue: string | null, delaySeconds = 0): Acceptance {
  const { acceptance: _proof, replay: _mark, ...envelope } = message;
  const accepted = {
    id: instanceId(envelope.tenant_id, workflow, envelope.idempotency_key),
    workflow,
    envelope,
    fingerprint: payloadFingerprint(envelope),
    queue,
    delaySeconds,
  };
  return { ...accepted, row: JSON.stringify(accepted) };
}

/** The message that takes an accepted command to its queue, with the proof that its row is committed. */
export function outgoing(secret: string, accepted: Acceptance): Outgoing {
  const { envelope, queue, delaySeconds } = accepted;
  const body = JSON.stringify({ ...envelope, acceptance: prove(secret, accepted) });
  return { id: messageId(envelope), queue: queue ?? "", delaySeconds, body };
}

/** Acceptances as the JSON texts that `json_each` takes: one text, or a few when they are large. */
export function acceptanceChunks(all: readonly Acceptance[]): string[] {
  return textChunks(all.map(({ row }) => row));
}

/** Columns of an acceptance as `json_each` hands it over. */
const ROWS = fragment(`value->>'id', value->'envelope'->>'tenant_id', value->>'workflow', value->'envelope'->>'message_type',
    value->'envelope'->>'idempotency_key', value->'envelope'->>'correlation_id', value->'envelope'->>'causation_id',
    value->'envelope'->>'subject', value->>'fingerprint', value->'envelope', value->>'queue'`);

const COLUMNS =
  fragment(`id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, queue,
      status, deliveries, accepted_at, updated_at, check_at`);

/**
 * Commits commands before their messages are sent, counting the delivery that each will have: all of them, or none if what is to be so is
 * not. Answers the rows that are new; known and pruned keys change nothing.
 */
export function insertAccepted(rows: string, provided?: Statement): Statement {
  return sql`
    INSERT INTO instances (${COLUMNS})
    SELECT ${ROWS}, 'accepted', 1, ${now}, ${now}, ${now} + (value->>'delaySeconds') * 1000 + ${KEEPER_PATIENCE_MS}
    FROM json_each(${rows}) WHERE NOT EXISTS (SELECT 1 FROM tombstones WHERE tombstones.id = unhex(value->>'id'))
      ${provided === undefined ? sql`` : sql`AND ${provided}`}
    ON CONFLICT (id) DO NOTHING
    RETURNING id, fingerprint, status, deliveries`;
}

/**
 * Takes delivered messages in: new ones become rows, accepted ones become queued, and every delivery is counted. One that is dead, because
 * a copy of its message was refused, is queued too: this copy is not.
 * Answers each row once per delivery; keys that were pruned, or whose payload differs, are not answered.
 */
export function takeIn(rows: string): Statement {
  return sql`
    INSERT INTO instances (${COLUMNS})
    SELECT ${ROWS}, 'queued', 1, ${now}, ${now}, ${now} + ${KEEPER_PATIENCE_MS}
    FROM json_each(${rows}) WHERE NOT EXISTS (SELECT 1 FROM tombstones WHERE tombstones.id = unhex(value->>'id'))
    ON CONFLICT (id) DO UPDATE SET
      deliveries = instances.deliveries + 1, updated_at = excluded.updated_at,
      status = iif(instances.status IN ('accepted', 'dead'), 'queued', instances.status)
    WHERE instances.fingerprint = excluded.fingerprint
    RETURNING id, fingerprint, status, deliveries, check_at IS NULL AS unwatched`;
}

/**
 * What was believed dead is looked at by the keeper again. A statement of its own, because it is rare: a changed time of the next look is
 * one written row more, and every repeat would pay for it.
 */
export function watchAgain(ids: readonly string[]): Statement {
  return sql`
    UPDATE instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE status = 'queued' AND check_at IS NULL AND id IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`;
}

/**
 * Commands that were started past their queue: from the next look on the platform is asked how they fare. One that stayed
 * `accepted` would only ever be created again, and an end that nobody wrote down would never be found.
 */
export function markStarted(ids: readonly string[]): Statement {
  return sql`
    UPDATE instances SET status = 'queued', updated_at = ${now}
    WHERE status = 'accepted' AND id IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`;
}

/** The condition that a key is known, also a pruned one's: what is accepted under it is a repeat, or refused. */
export function isKnown({ id }: Identity): Statement {
  return sql`(EXISTS (SELECT 1 FROM instances WHERE id = ${id}) OR EXISTS (SELECT 1 FROM tombstones WHERE id = unhex(${id})))`;
}

/** The condition that a key has gone to other work. */
export function isTaken({ id, fingerprint }: Identity): Statement {
  return sql`
    (EXISTS (SELECT 1 FROM instances WHERE id = ${id} AND fingerprint <> ${fingerprint})
      OR EXISTS (SELECT 1 FROM tombstones WHERE id = unhex(${id}) AND fingerprint <> unhex(${fingerprint})))`;
}

/** The state of keys, also of pruned ones. */
export function selectKnown(ids: readonly string[]): Statement {
  return sql`
    SELECT id, fingerprint, status, correlation_id FROM instances WHERE id IN (SELECT value FROM json_each(${JSON.stringify(ids)}))
    UNION ALL
    SELECT lower(hex(id)), lower(hex(fingerprint)), 'pruned', NULL FROM tombstones
    WHERE id IN (SELECT unhex(value) FROM json_each(${JSON.stringify(ids)}))`;
}

/** Messages that the engine's outbox keeps are ours now: they need not be sent again. No statement for those that their senders keep. */
export function confirm(messages: readonly Envelope[]): Statement[] {
  const ids = messages.filter(({ outbox }) => outbox === undefined).map(outboxId);
  return ids.length === 0 ? [] : [sql`DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`];
}

/**
 * Messages that are under way although nobody has confirmed them: in a back-off, which no queue's metrics count, or with a slow
 * handler. The keeper sends no copy before then.
 */
export function expectLater(messages: readonly { envelope: Envelope; delayMs: number }[]): Statement {
  const rows = messages.map(({ envelope, delayMs }) => ({ id: outboxId(envelope), delayMs }));
  return sql`
    UPDATE outbox SET due_at = max(due_at, ${now} + later.value->>'delayMs' + ${CONFIRM_WITHIN_MS}), sent_at = NULL
    FROM json_each(${JSON.stringify(rows)}) later WHERE outbox.id = later.value->>'id'`;
}
