import type { Envelope } from "../../contract/envelope.ts";
import type { Flow } from "../../contract/flow.ts";
import { fragment, now, type RowStatement, type Statement, sql } from "../../contract/sql.ts";
import { KEEPER_PATIENCE_MS } from "../../contract/within.ts";
import { isPruned } from "../tombstones.ts";
import type { Identity } from "./keys.ts";
import { AWAKE, DUE_AFTER_CANCEL, UNDER_WAY } from "./status.ts";

/** A child: an instance that the step of another instance starts and awaits. */
export interface NewChild extends Identity {
  readonly workflow: string;
  readonly version: number;
  readonly envelope: Envelope;
  readonly queue: string;
  /** The deadline of the child's workflow as a duration from the acceptance. */
  readonly deadlineMs?: number;
  readonly flow?: Flow;
  readonly parent: string;
  /** The label of the parent's step. */
  readonly step: string;
  /** The workflow of the parent. */
  readonly by: string;
}

/** Accepts a child, in the write that records the parent's step. The child's deadline is at most the deadline of its parent. */
export function insertChild({ by: _by, ...child }: NewChild): RowStatement {
  return { text: INSERT_CHILD, row: child };
}

const INSERT_CHILD = `
  WITH given AS MATERIALIZED (SELECT value->>'id' AS id, value FROM json_each(?1))
  INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject,
    fingerprint, envelope, queue, must_end_by, status, accepted_at, updated_at, check_at, parent, parent_step, version,
    slot, slot_turn, flow)
  SELECT given.id, value->>'$.envelope.tenant_id', value->>'workflow', value->>'$.envelope.message_type',
    value->>'$.envelope.idempotency_key', value->>'$.envelope.correlation_id', value->>'$.envelope.causation_id',
    value->>'$.envelope.subject', value->>'fingerprint', value->'envelope', value->>'queue',
    coalesce(min(${now.fragment} + (value->>'deadlineMs'), p.must_end_by), ${now.fragment} + (value->>'deadlineMs'), p.must_end_by),
    'accepted', ${now.fragment}, ${now.fragment}, ${now.fragment} + ${KEEPER_PATIENCE_MS}, value->>'parent', value->>'step', value->>'version',
    value->>'$.flow.slot', iif(value->>'$.flow.slot' IS NULL, NULL, ${now.fragment}), value->'flow'
  FROM given LEFT JOIN millrace_instances p ON p.id = value->>'parent' WHERE NOT ${isPruned(fragment("given.id")).text}
  ON CONFLICT (id) DO NOTHING`;

/** Lets a child with flow control start (see `askForStart`), in a statement that follows the insert. */
export function askForChildStart(id: string): RowStatement {
  return { text: ASK_FOR_CHILD_START, row: { id } };
}

const ASK_FOR_CHILD_START = `
  UPDATE millrace_instances SET flow = flow WHERE rowid IN (
    SELECT rowid FROM millrace_instances WHERE id IN (SELECT value->>'id' FROM json_each(?1))) AND flow IS NOT NULL`;

/**
 * Selects an instance in progress that occupies the slot or the lane key of a child: its parent, or a parent above. `lane`: the queue of a
 * child in a lane.
 */
export function selectBlocked({ parent, flow, envelope }: NewChild, lane: string | undefined): Statement {
  return sql`
    WITH RECURSIVE above(id) AS (
      SELECT ${parent}
      UNION SELECT parent FROM millrace_instances JOIN above USING (id) WHERE parent IS NOT NULL)
    SELECT id FROM above JOIN millrace_instances USING (id)
    WHERE status IN ${UNDER_WAY} AND (slot = ${flow?.slot ?? null}
      OR (queue = ${lane ?? null} AND subject = ${envelope.subject} AND envelope->>'kind' = 'command')) LIMIT 1`;
}

/** The end of a child that its parent has not received, with the run of the parent. */
export interface UntoldEnd {
  readonly id: string;
  readonly instance_id: string;
  readonly workflow: string;
  readonly event_type: string;
  readonly signal_id: string;
  readonly run: number;
  readonly envelope: string;
}

/** Selects the end of a child, if the child's parent is in progress and has not received the end. */
export function selectUntoldEnd(child: string): RowStatement {
  return { text: SELECT_UNTOLD_END, row: { id: child } };
}

const SELECT_UNTOLD_END = `
  SELECT c.id, w.instance_id, w.workflow, w.event_type, w.signal_id, p.run, s.envelope
  FROM json_each(?1) ended CROSS JOIN millrace_instances c ON c.id = ended.value->>'id'
    CROSS JOIN millrace_waits w ON w.instance_id = c.parent AND w.name = c.parent_step AND w.subject = c.id
    CROSS JOIN millrace_signals s ON s.id = w.signal_id CROSS JOIN millrace_instances p ON p.id = c.parent
  WHERE w.told_at IS NULL AND p.undo IS NULL AND p.status IN ${UNDER_WAY.fragment}`;

/** The condition that a row is a child in progress of this parent, and is not being undone. */
export function isOpenChild(parent: string): Statement {
  return sql`millrace_instances.parent = ${parent} AND millrace_instances.status IN ${UNDER_WAY} AND millrace_instances.undo IS NULL`;
}

/**
 * Cancels the children of a cancelled parent. `undo`: the effects of the children are undone. The statement must follow the statement that
 * audits these cancels (`auditDerivedCancels`).
 */
export function cancelChildren({ id, tenantId }: { id: string; tenantId: string }, actionId: string, undo: boolean): Statement {
  return sql`
    UPDATE millrace_instances SET status = ${undo ? AWAKE : fragment("'terminated'")}, run = run + 1, error = NULL,
      undo = iif(${undo ? 1 : 0}, a.id, NULL), due_at = ${DUE_AFTER_CANCEL}, updated_at = ${now},
      check_at = iif(${undo ? 1 : 0}, ${now} + ${KEEPER_PATIENCE_MS}, NULL)
    FROM millrace_actions a
    WHERE millrace_instances.tenant_id = ${tenantId} AND ${isOpenChild(id)}
      AND a.instance_id = millrace_instances.id AND a.applied_at IS NULL AND a.detail->>'derived_from' = ${actionId}`;
}

/** Selects the state of a child, for the undo of its parent. */
export function selectChild(tenantId: string, child: string): Statement {
  return sql`SELECT status, undo, undone FROM millrace_instances WHERE id = ${child} AND tenant_id = ${tenantId}`;
}
