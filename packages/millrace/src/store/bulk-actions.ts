import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import type { Operator } from "./actions.ts";
import { OVER } from "./instances/status.ts";

/**
 * running → complete          all items were processed, and each item has settled or reached the time limit
 * running → stopped           too many items of a stage failed
 * running → aborted           an operator aborted the bulk action
 * stopped, aborted → running  an operator resumed the bulk action with a new instance
 */
export type BulkState = "running" | "complete" | "stopped" | "aborted";

/** The options of a request for a bulk action. The options are stored as JSON, and exclude the verb and the reason. */
export interface BulkAsked {
  /** The filter that selects items; null if the request lists the ids. */
  readonly filter: Readonly<Record<string, unknown>> | null;
  /** The count of ids in the request; null if the request has a filter. */
  readonly ids: number | null;
  /** The sizes of all stages except the last stage, which has all remaining items. */
  readonly ramp: readonly number[];
  readonly rate_per_second: number;
  readonly stop_at_error_rate: number;
  readonly settle_within_seconds: number;
  /** See `BulkOptions`. */
  readonly undo?: boolean;
  readonly run_at?: string;
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
 * The condition that no instance processes a bulk action any more, because the instance has failed, was ended manually, or was never
 * created. The condition ignores the state of the bulk action. `b` is the row of the bulk action, and `i` is the row of its instance, if
 * that row exists.
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
 * Creates a bulk action, if its tenant has fewer than `MAX_RUNNING` running bulk actions. The list of its items is written after the bulk
 * action, in the same batch.
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

/** The condition that a bulk action is new, so that the items of its list are not counted yet. */
export function isUncounted(tenantId: string, id: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_bulk_actions WHERE id = ${id} AND tenant_id = ${tenantId} AND matched IS NULL)`;
}

/** Counts the items of a bulk action once, after its list is written. The state of a bulk action without items becomes "complete". */
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

/** The progress of a bulk action's instance after it has processed a chunk of items. */
export interface BulkStep {
  readonly id: string;
  readonly tenantId: string;
  /**
   * The ordinal of the bulk action's present instance, and the count of items processed before this chunk. The whole write is refused if
   * the row has another ordinal, or if the chunk is already recorded.
   */
  readonly pass: number;
  readonly from: number;
  /** The results of the chunk. `turned` is the count of items in earlier chunks that were `done` and have failed since. */
  readonly done: number;
  readonly skipped: number;
  readonly failed: number;
  readonly turned: number;
  readonly looked: number;
  readonly stage: { readonly from: number; readonly skipped: number; readonly failed: number };
  /** The new state of the bulk action. This state is not recorded if an operator has aborted the bulk action. */
  readonly state: Exclude<BulkState, "aborted">;
  readonly why: string | null;
  /** The next instance that processes the bulk action; null if the present instance continues. */
  readonly next: string | null;
}

/**
 * Records a chunk of items. For the ordinal of another instance or a repeated chunk, `done` is set to NULL, which the NOT NULL constraint
 * of the column refuses.
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

/** Resumes a bulk action with a new instance. Items that were processed before the resume do not count towards the error rate. */
export function resumeBulk({ tenantId }: Operator, id: string, pass: number, instanceId: string): Statement {
  return sql`
    UPDATE millrace_bulk_actions SET state = 'running', why = NULL, ended_at = NULL, pass = ${pass}, instance_id = ${instanceId},
      stage_from = done + skipped + failed, stage_skipped = skipped, stage_failed = failed, updated_at = ${now}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND pass = ${pass} - 1
      AND (state IN ('stopped', 'aborted') OR ${isLeft(id)}) AND ${HAS_ROOM(tenantId)}`;
}

/**
 * Removes bulk actions that ended long ago, if their items and lists are already removed. The statement returns a row for each removed row.
 */
export function removeEndedBulk(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_bulk_actions WHERE id IN (
      SELECT id FROM millrace_bulk_actions b WHERE ended_at <= ${now} - ${keepMs}
        AND NOT EXISTS (SELECT 1 FROM millrace_bulk_items t WHERE t.tenant_id = b.tenant_id AND t.bulk_id = b.id)
        AND NOT EXISTS (SELECT 1 FROM millrace_bulk_lists l WHERE l.tenant_id = b.tenant_id AND l.bulk_id = b.id)
      LIMIT ${limit})
    RETURNING 1 AS gone`;
}
