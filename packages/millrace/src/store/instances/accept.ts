import type { Envelope } from "../../contract/envelope.ts";
import { messageOf } from "../../contract/errors.ts";
import type { Flow } from "../../contract/flow.ts";
import { MAX_DELAY_SECONDS, MAX_DUE_SECONDS } from "../../contract/queue.ts";
import { among, fragment, now, type RowStatement, type Statement, sql } from "../../contract/sql.ts";
import { CLOCKS_APART_MS, KEEPER_PATIENCE_MS } from "../../contract/within.ts";
import { wasApplied } from "../actions.ts";
import { pauseOf } from "../pauses.ts";
import { isPruned } from "../tombstones.ts";
import { type Identity, isKnown } from "./keys.ts";
import {
  ENDED,
  type InstanceStatus,
  IS_INDEXED_AS_IN_TURN,
  IS_INDEXED_AS_OVER,
  IS_INDEXED_AS_UNDER_WAY,
  UNSEEN,
  WAITS_FOR_SLOT,
} from "./status.ts";

/** A new instance, in the form in which the acceptance of its command stores it. */
export interface NewInstance extends Identity {
  readonly workflow: string;
  /** The version of the workflow. Until the start, each deployment that handles the instance's message replaces the version. */
  readonly version: number;
  readonly envelope: Envelope;
  /** The queue of the command; null if the instance is started without a queue. */
  readonly queue: string | null;
  /** The deadline in milliseconds since 1970; absent if the instance has no deadline. */
  readonly mustEndBy?: number;
  /** The deadline of the instance as a duration from its acceptance. */
  readonly deadlineMs?: number;
  readonly flow?: Flow;
}

/** The current database row of an accepted command. */
export interface AcceptedRow extends Identity {
  status: InstanceStatus;
  deliveries: number;
  /** Flag (0 or 1): 1 if the command's workflow or queue is paused, or the command waits for a slot, so that it must not start. */
  held: number;
  /** Flag (0 or 1): 1 if the keeper does not check the instance soon, because the instance was marked dead or held. */
  unwatched?: number;
}

/** Selects the trace contexts and the creation times of these commands. */
export function selectStored(ids: readonly string[]): Statement {
  return sql`
    SELECT id, envelope->>'traceparent' AS traceparent, envelope->>'created_at' AS created_at
    FROM millrace_instances WHERE id IN ${among(ids)}`;
}

/** SQL expression of the instance id in a JSON acceptance. */
const ID = fragment("value->>'id'");

/** SQL expressions of the instance columns in a JSON acceptance. A trigger gives an instance its slot when the instance is due. */
const ROWS = fragment(`value->>'id', value->>'$.envelope.tenant_id', value->>'workflow', value->>'$.envelope.message_type',
    value->>'$.envelope.idempotency_key', value->>'$.envelope.correlation_id', value->>'$.envelope.causation_id',
    value->>'$.envelope.subject', value->>'fingerprint', value->'envelope', value->>'queue',
    coalesce(value->>'mustEndBy', ${now.fragment} + coalesce(value->>'delaySeconds', 0) * 1000 + (value->>'deadlineMs')),
    iif(value->>'$.envelope.callback_url' IS NULL, NULL, 'owed'), value->>'version', value->>'$.flow.slot',
    iif(value->>'$.flow.slot' IS NULL, NULL, ${now.fragment} + coalesce(value->>'delaySeconds', 0) * 1000), value->'flow'`);

/** True while the workflow or queue of the row is paused. */
const IS_HELD = fragment(`${pauseOf("1").fragment} IS NOT NULL AS held`);

/** SQL expression that is true if the workflow or queue of a JSON acceptance is paused. */
const PAUSE_OF_GIVEN = pauseOf("1", {
  workflow: "(value->>'workflow')",
  queue: "(value->>'queue')",
  tenant: "(value->>'$.envelope.tenant_id')",
});

const COLUMNS =
  fragment(`id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, queue,
      must_end_by, callback, version, slot, slot_turn, flow, status, deliveries, accepted_at, updated_at, check_at`);

/**
 * Commits commands before their messages are sent, and counts the first delivery of each command. If the condition `provided` is false, no
 * command is committed. Commands with known or pruned keys change nothing. Returns the new rows.
 */
export function insertAccepted(rows: string, provided?: Statement): Statement {
  return sql`
    WITH given AS MATERIALIZED (SELECT value FROM json_each(${rows}))
    INSERT INTO millrace_instances (${COLUMNS}, due_at)
    SELECT ${ROWS}, 'accepted', 1, ${now}, ${now},
      ${now} + (value->>'delaySeconds') * 1000 + CASE WHEN value->>'delaySeconds' > ${MAX_DELAY_SECONDS} THEN 0
        WHEN value->>'delaySeconds' = 0 AND value->>'$.flow.slot' IS NOT NULL THEN ${HELD_MS} ELSE ${KEEPER_PATIENCE_MS} END,
      iif(value->>'delaySeconds' > 0, ${now} + (value->>'delaySeconds') * 1000, NULL)
    FROM given WHERE NOT ${isPruned(ID)}
      ${provided === undefined ? sql`` : sql`AND ${provided}`}
    ON CONFLICT (id) DO NOTHING
    RETURNING id, fingerprint, status, correlation_id, due_at, ${IS_HELD}`;
}

/** Makes its batch fail if each of these keys belongs to an existing or pruned instance. The database's error satisfies `areRepeats`. */
export function refuseRepeats(ids: readonly string[]): Statement {
  return sql`
    INSERT INTO millrace_instances (id)
    SELECT NULL WHERE NOT EXISTS (SELECT 1 FROM json_each(${JSON.stringify(ids)}) WHERE NOT ${isKnown({ id: fragment("value") })})`;
}

/** True for the database error that `refuseRepeats` causes. */
export function areRepeats(error: unknown): boolean {
  return messageOf(error).includes("NOT NULL constraint failed: millrace_instances.id");
}

/**
 * Accepts delivered messages and counts every delivery. A message without a row gets a row, and an accepted row becomes queued. A row that
 * is dead because a copy of its message was refused becomes queued too, because the present copy is valid. While the workflow or queue of a
 * row is paused, and before the due time of the row, the row is accepted and not queued. A queue may deliver the message of a row without
 * a slot a second early. A row that waits for a slot stays accepted until it is due, so that a later command of its debounced key still
 * replaces it. The time of an instance's end does not change.
 * Returns a row once per delivery. A message with a pruned key, or with the key of another payload, returns no row.
 */
export function takeIn(rows: string): Statement {
  return sql`
    WITH given AS MATERIALIZED (SELECT value FROM json_each(${rows}))
    INSERT INTO millrace_instances (${COLUMNS})
    SELECT ${ROWS}, iif(${PAUSE_OF_GIVEN} IS NULL, 'queued', 'accepted'), 1, ${now}, ${now},
      ${now} + iif(value->>'$.flow.slot' IS NULL, ${KEEPER_PATIENCE_MS}, ${HELD_MS})
    FROM given WHERE NOT ${isPruned(ID)}
    ON CONFLICT (id) DO UPDATE SET
      deliveries = millrace_instances.deliveries + 1,
      updated_at = iif(millrace_instances.status IN ${ENDED}, millrace_instances.updated_at, excluded.updated_at),
      version = iif(millrace_instances.status IN ${UNSEEN}, excluded.version, millrace_instances.version),
      slot_turn = iif(millrace_instances.status = 'dead' AND millrace_instances.slot IS NOT NULL, ${now}, millrace_instances.slot_turn),
      status = CASE WHEN millrace_instances.status = 'dead' THEN excluded.status
        WHEN millrace_instances.status = 'accepted' AND coalesce(millrace_instances.due_at, 0)
          <= ${now} + iif(millrace_instances.slot_turn IS NULL, ${CLOCKS_APART_MS}, 0) THEN excluded.status
        ELSE millrace_instances.status END
    WHERE millrace_instances.fingerprint = excluded.fingerprint
    RETURNING id, fingerprint, status, deliveries, 
      check_at IS NULL OR (held_by IS NOT NULL AND status = 'queued') AS unwatched, ${IS_HELD}`;
}

/** Selects the instances among these that may start: they are due, and need no slot or have their slot. It must follow the insert. */
export function selectInTurn(ids: readonly string[]): Statement {
  return sql`
    SELECT id FROM millrace_instances
    WHERE id IN ${among(ids)} AND status IN ${UNSEEN} AND slot_turn IS NULL AND coalesce(due_at, 0) <= ${now} + ${CLOCKS_APART_MS}`;
}

/**
 * Lets instances with flow control start, in the order of their rows. A trigger sets the due times of new instances, and gives a free slot
 * to the first instance of each key. The statement must follow the insert.
 */
export function askForStart(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET flow = flow
    WHERE rowid IN (SELECT rowid FROM millrace_instances WHERE id IN ${among(ids)}) AND flow IS NOT NULL`;
}

/**
 * Starts an instance that waits for a slot beyond the limit, or moves the instance before all others of its key (`toFront`). The keeper
 * starts the instance if the message of the instance was already delivered.
 */
export function jumpQueue({ id, tenantId }: { id: string; tenantId: string }, toFront: boolean): Statement {
  return sql`
    UPDATE millrace_instances SET updated_at = ${now}, check_at = ${now} + ${toFront ? HELD_MS : KEEPER_PATIENCE_MS},
      slot_turn = iif(${toFront ? 1 : 0}, (SELECT min(w.slot_turn, ${now}) - 1 FROM millrace_instances w
        WHERE w.slot = millrace_instances.slot AND ${IS_INDEXED_AS_IN_TURN} ORDER BY w.slot_turn LIMIT 1), NULL)
    WHERE id = ${id} AND tenant_id = ${tenantId} AND undo IS NULL AND ${WAITS_FOR_SLOT}`;
}

/** The next instance of a key, to which the end of another instance has given the slot. */
export interface NextInSlot {
  readonly id: string;
  readonly workflow: string;
  readonly envelope: string;
}

/**
 * Selects the instances that got a slot by the end of an instance, in a statement that follows the write of the end. The keeper starts an
 * instance of a paused workflow after the resume.
 */
export function selectNextInSlot(ended: string): RowStatement {
  return { text: SELECT_NEXT_IN_SLOT, row: { id: ended } };
}

const SELECT_NEXT_IN_SLOT = `
  SELECT r.value->>'id' AS ended, n.id, n.workflow, n.envelope FROM json_each(?1) r
    CROSS JOIN millrace_instances e ON e.id = r.value->>'id' AND e.${IS_INDEXED_AS_OVER.fragment}
    CROSS JOIN millrace_instances n INDEXED BY millrace_instances_in_slot ON n.slot = e.slot AND n.slot_turn IS NULL
      AND n.${IS_INDEXED_AS_UNDER_WAY.fragment} AND n.status IN ${UNSEEN.fragment} AND n.updated_at >= e.updated_at
      AND ${pauseOf("1", { workflow: "n.workflow", queue: "n.queue", tenant: "n.tenant_id" }).fragment} IS NULL`;

/**
 * Changes the due time of a delayed command that has not started. The new due time is at most 365 days after the present. Null means that
 * the command is due now. The workflow's deadline moves too, and the command's own deadline must be later than the new due time. Without a
 * message in a queue, the keeper checks the command when it is due.
 */
export function moveDue({ id, tenantId }: { id: string; tenantId: string }, at: number | null): Statement {
  const due = at === null ? now : sql`${at}`;
  return sql`
    UPDATE millrace_instances SET due_at = ${due}, updated_at = ${now}, slot_turn = iif(slot_turn IS NULL, NULL, ${due}),
      must_end_by = iif(envelope->>'must_end_by' IS NULL, must_end_by + ${due} - due_at, must_end_by),
      check_at = ${due} + iif(${due} > ${now} + ${MAX_DELAY_SECONDS * 1000}, 0, ${KEEPER_PATIENCE_MS})
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status = 'accepted' AND undo IS NULL AND due_at > ${now}
      AND ${due} BETWEEN ${now} AND ${now} + ${MAX_DUE_SECONDS * 1000} AND (envelope->>'must_end_by' IS NULL OR must_end_by > ${due})`;
}

/**
 * Marks commands that the keeper started directly as `queued`, so that later checks query their status on the platform. For a row with the
 * status `accepted`, the keeper would only create the instance again, and would never detect the end of its run.
 */
export function markStarted(ids: readonly string[]): Statement {
  return sql`UPDATE millrace_instances SET status = 'queued', updated_at = ${now} WHERE status = 'accepted' AND id IN ${among(ids)}`;
}

/**
 * Marks commands that cannot start as `dead`, so that an operator decides about these commands and the keeper does not start them. A
 * command is excluded if its dead letter was already settled for another copy of its message. Without an open dead letter, no operator
 * could act on the command.
 */
export function markDead(rows: readonly (Identity & { letter: string })[]): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'dead', updated_at = ${now}, seen = 1, check_at = ${now} + ${KEEPER_PATIENCE_MS}
    FROM json_each(${JSON.stringify(rows)}) d
    WHERE millrace_instances.id = d.value->>'id' AND millrace_instances.fingerprint = d.value->>'fingerprint'
      AND millrace_instances.status IN ${UNSEEN}
      AND EXISTS (SELECT 1 FROM millrace_dead_letters
        WHERE millrace_dead_letters.id = d.value->>'letter' AND millrace_dead_letters.state = 'open')`;
}

/**
 * Accepts a command again after the replay of its dead letter. The statement inserts a row, or reopens the row of a command that never
 * started. `before` is the fingerprint of the message in the dead letter. The row gets the id of the replay, so that later sends use the
 * replayed message.
 */
export function acceptAgain(
  { id, workflow, version, envelope, fingerprint, queue, mustEndBy, deadlineMs, flow }: NewInstance,
  before: string | null,
  actionId: string,
): Statement {
  const marked = JSON.stringify({ ...envelope, replay: actionId });
  return sql`
    INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject,
      fingerprint,
      envelope, queue, must_end_by, callback, version, slot, slot_turn, flow, status, accepted_at, updated_at, check_at)
    SELECT ${id}, ${envelope.tenant_id}, ${workflow}, ${envelope.message_type}, ${envelope.idempotency_key},
      ${envelope.correlation_id}, ${envelope.causation_id}, ${envelope.subject}, ${fingerprint}, ${marked}, ${queue},
      coalesce(${mustEndBy ?? null}, ${now} + ${deadlineMs ?? null}), ${envelope.callback_url === undefined ? null : "owed"},
      ${version}, ${flow?.slot ?? null}, iif(${flow?.slot ? 1 : 0}, ${now}, NULL), ${flow ? JSON.stringify(flow) : null},
      'accepted', ${now}, ${now}, ${now} + ${flow?.slot ? HELD_MS : KEEPER_PATIENCE_MS}
    WHERE ${wasApplied(actionId)} AND NOT ${isPruned(id)}
    ON CONFLICT (id) DO UPDATE SET
      status = 'accepted', correlation_id = excluded.correlation_id, causation_id = excluded.causation_id, subject = excluded.subject,
      envelope = excluded.envelope, fingerprint = excluded.fingerprint, updated_at = excluded.updated_at,
      must_end_by = excluded.must_end_by, callback = excluded.callback, version = excluded.version, check_at = excluded.check_at,
      slot = excluded.slot, slot_turn = excluded.slot_turn, flow = excluded.flow, due_at = NULL
    WHERE millrace_instances.status = 'dead' AND millrace_instances.fingerprint IN (excluded.fingerprint, ${before})`;
}

/**
 * Skips a command with its dead letter, unless its row belongs to another message. The statement must follow the statement that applies the
 * operator's action.
 */
export function skipInstance(id: string | null, fingerprint: string, actionId: string): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'skipped', updated_at = ${now}, check_at = NULL
    WHERE id = ${id} AND status = 'dead' AND fingerprint = ${fingerprint} AND ${wasApplied(actionId)}`;
}

/** The keeper checks a held instance after this time, in milliseconds, even if no resume has made the check due. */
export const HELD_MS = 6 * 3_600_000;

/**
 * Holds instances that have not started, while their workflow or queue is paused. The resume of the workflow or queue makes the keeper's
 * checks of the held instances due.
 */
export function holdBack(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET held_by = ${pauseOf("p.id")}, check_at = ${now} + ${HELD_MS}
    WHERE id IN ${among(ids)} AND status IN ${UNSEEN} AND ${pauseOf("p.id")} IS NOT NULL`;
}

/**
 * Makes the keeper check the instances whose pause has ended. Instances that were accepted earlier come first. The statement returns the
 * ids of these instances.
 */
export function releaseHeld(limit: number): Statement {
  return sql`
    UPDATE millrace_instances SET held_by = NULL, check_at = min(check_at, ${now})
    WHERE id IN (
      SELECT id FROM millrace_instances INDEXED BY millrace_instances_held
      WHERE held_by = (
        SELECT p.id FROM millrace_pauses p INDEXED BY millrace_pauses_resumed
        WHERE p.resumed_at IS NOT NULL AND EXISTS (SELECT 1 FROM millrace_instances h WHERE h.held_by = p.id)
        ORDER BY p.resumed_at LIMIT 1)
      ORDER BY accepted_at LIMIT ${limit})
    RETURNING id`;
}
