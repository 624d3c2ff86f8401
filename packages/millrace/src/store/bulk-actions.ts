import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import type { Operator } from "./actions.ts";
import { OVER } from "./instances/status.ts";

/**
 * running → complete          all items were processed, and have settled or reached the time limit
 * running → stopped           too many failures in a stage
 * running → aborted           stopped by an operator
 * stopped, aborted → running  resumed by an operator, with a new instance; also when the former instance has ended
 */
export type BulkState = "running" | "complete" | "stopped" | "aborted";

/** The options of a request for a bulk action, without verb and reason, which are stored as JSON. */
export interface BulkAsked {
  /** The filter of the verb; null if ids were given. */
  readonly filter: Readonly<Record<string, unknown>> | null;
  /** The number of given ids; null if a filter was given. */
  readonly ids: number | null;
  /** The sizes of the stages; the last stage has all other items. */
  readonly ramp: readonly number[];
  readonly ratePerSecond: number;
  readonly stopAtErrorRate: number;
  readonly settleWithinSeconds: number;
  /** False: completed effects of the instances remain. Undefined for a verb without undo. */
  readonly undo?: boolean;
}

export interface NewBulk {
  readonly id: string;
  readonly verb: string;
  readonly reason: string;
  readonly asked: BulkAsked;
  readonly fingerprint: string;
  readonly instanceId: string;
}

/** Maximum number of running bulk actions per tenant, because each uses database and platform capacity. */
export const MAX_RUNNING = 5;

/** Time within which the next instance of a bulk action starts after the previous one, in milliseconds. */
const BEGINS_WITHIN_MS = 600_000;

/**
 * The condition that no instance processes a bulk action any more, regardless of the row's state: the instance has failed, was ended
 * manually, or was never created. `b` is the row of the bulk action, and `i` its instance, which may be missing.
 */
export const IS_LEFT = fragment(`(i.status IN ${OVER.fragment}
    OR (i.id IS NULL AND b.updated_at <= ${now.fragment} - ${BEGINS_WITHIN_MS}))`);

function isLeft(id: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_bulk_actions b LEFT JOIN millrace_instances i ON i.id = b.instance_id
    WHERE b.id = ${id} AND b.state = 'running' AND ${IS_LEFT})`;
}

const HAS_ROOM = (tenantId: string) => sql`
  (SELECT count(*) FROM millrace_bulk_actions b LEFT JOIN millrace_instances i ON i.id = b.instance_id
    WHERE b.tenant_id = ${tenantId} AND b.state = 'running' AND NOT coalesce(${IS_LEFT}, false)) < ${MAX_RUNNING}`;

/**
 * Creates a bulk action, if its tenant has fewer than `MAX_RUNNING`. The list of its items is written after the bulk action, in the same
 * batch.
 */
export function insertBulk({ tenantId, actor }: Operator, bulk: NewBulk): Statement {
  const { id, verb, reason, asked, fingerprint, instanceId } = bulk;
  return sql`
    INSERT INTO millrace_bulk_actions (id, tenant_id, actor, verb, reason, asked, fingerprint, state, instance_id, created_at, updated_at)
    SELECT ${id}, ${tenantId}, ${actor}, ${verb}, ${reason}, ${JSON.stringify(asked)}, ${fingerprint}, 'running', ${instanceId}, ${now}, ${now}
    WHERE ${HAS_ROOM(tenantId)}
    ON CONFLICT (id) DO NOTHING`;
}

/** The condition that a bulk action exists. */
export function isMade(tenantId: string, id: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_bulk_actions WHERE id = ${id} AND tenant_id = ${tenantId})`;
}

/** The condition that a bulk action is new: the items of its list were not counted. */
export function isUncounted(tenantId: string, id: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_bulk_actions WHERE id = ${id} AND tenant_id = ${tenantId} AND matched IS NULL)`;
}

/** Counts the items of a bulk action once, after its list is written. A bulk action without items is complete. */
export function countList(tenantId: string, id: string): Statement {
  const hasList = sql`EXISTS (SELECT 1 FROM millrace_bulk_lists WHERE tenant_id = ${tenantId} AND bulk_id = ${id})`;
  return sql`
    UPDATE millrace_bulk_actions SET
      matched = (SELECT coalesce(sum(json_array_length(ids)), 0) FROM millrace_bulk_lists
        WHERE tenant_id = ${tenantId} AND bulk_id = ${id}),
      state = iif(${hasList}, 'running', 'complete'), ended_at = iif(${hasList}, NULL, ${now})
    WHERE id = ${id} AND tenant_id = ${tenantId} AND matched IS NULL`;
}

/** The condition that an instance processes a bulk action. */
export function isWorkedOnBy(tenantId: string, id: string, instanceId: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_bulk_actions
    WHERE id = ${id} AND tenant_id = ${tenantId} AND state = 'running' AND instance_id = ${instanceId})`;
}

/** The condition that an inbox entry has not changed since a bulk action was created. */
export function stoodAtBegin(bulkId: string): Statement {
  return sql`millrace_inbox.updated_at <= (SELECT created_at FROM millrace_bulk_actions WHERE id = ${bulkId})`;
}

/** The progress of a bulk action's instance after a chunk of items. */
export interface BulkStep {
  readonly id: string;
  readonly tenantId: string;
  /**
   * The number of the bulk action's instance, and of items processed before. Another number, or a chunk that was already recorded, refuses
   * the whole write.
   */
  readonly pass: number;
  readonly from: number;
  /** The results of the chunk; `turned` is the number of earlier `done` items that have failed since. */
  readonly done: number;
  readonly skipped: number;
  readonly failed: number;
  readonly turned: number;
  readonly looked: number;
  readonly stage: { readonly from: number; readonly skipped: number; readonly failed: number };
  /** The new state of the bulk action, unless an operator has aborted it meanwhile. */
  readonly state: Exclude<BulkState, "aborted">;
  readonly why: string | null;
  /** The next instance that processes the bulk action; null if the present one continues. */
  readonly next: string | null;
}

/**
 * Records a chunk of items. For another instance's number or a repeated chunk, `done` is set to NULL, which its NOT NULL constraint
 * refuses.
 */
export function recordStep(step: BulkStep): Statement {
  const { id, tenantId, pass, from, stage, state } = step;
  return sql`
    UPDATE millrace_bulk_actions SET
      done = iif(pass = ${pass} AND done + skipped + failed = ${from}, done + ${step.done - step.turned}, NULL),
      skipped = skipped + ${step.skipped}, failed = failed + ${step.failed + step.turned}, looked = ${step.looked},
      stage_from = ${stage.from}, stage_skipped = ${stage.skipped}, stage_failed = ${stage.failed},
      why = iif(state = 'running', ${step.why}, why),
      ended_at = iif(state = 'running' AND ${state} <> 'running', ${now}, ended_at),
      pass = pass + ${step.next === null ? 0 : 1}, instance_id = coalesce(${step.next}, instance_id),
      state = iif(state = 'running', ${state}, state), updated_at = ${now}
    WHERE id = ${id} AND tenant_id = ${tenantId}`;
}

export function abortBulk({ tenantId, actor }: Operator, id: string): Statement {
  return sql`
    UPDATE millrace_bulk_actions SET state = 'aborted', why = ${`Aborted by ${actor}: no further items are started, and completed items are kept. A resume continues with the remaining items.`}, ended_at = ${now}, updated_at = ${now}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND state = 'running'`;
}

/** Resumes a bulk action with a new instance. The error rate is computed from the resume on. */
export function resumeBulk({ tenantId }: Operator, id: string, pass: number, instanceId: string): Statement {
  return sql`
    UPDATE millrace_bulk_actions SET state = 'running', why = NULL, ended_at = NULL, pass = ${pass}, instance_id = ${instanceId},
      stage_from = done + skipped + failed, stage_skipped = skipped, stage_failed = failed, updated_at = ${now}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND pass = ${pass} - 1
      AND (state IN ('stopped', 'aborted') OR ${isLeft(id)}) AND ${HAS_ROOM(tenantId)}`;
}

/** Removes bulk actions that ended long ago and whose items and lists are removed. The statement returns a row for each removed row. */
export function removeEndedBulk(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_bulk_actions WHERE id IN (
      SELECT id FROM millrace_bulk_actions b WHERE ended_at <= ${now} - ${keepMs}
        AND NOT EXISTS (SELECT 1 FROM millrace_bulk_items t WHERE t.tenant_id = b.tenant_id AND t.bulk_id = b.id)
        AND NOT EXISTS (SELECT 1 FROM millrace_bulk_lists l WHERE l.tenant_id = b.tenant_id AND l.bulk_id = b.id)
      LIMIT ${limit})
    RETURNING 1 AS gone`;
}
