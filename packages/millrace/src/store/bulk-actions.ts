import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import type { Operator } from "./actions.ts";
import { OVER } from "./instances/status.ts";

/**
 * running → complete   everything was acted upon, and has come to its end or had its time
 * running → stopped    too much of a stage failed
 * running → aborted    an operator halts it
 * stopped, aborted → running   an operator resumes it, as its next pass; also one whose instance is over
 */
export type BulkState = "running" | "complete" | "stopped" | "aborted";

/** What was asked for, beside the verb and the reason: kept as JSON. */
export interface BulkAsked {
  /** What it is about, in the words of its verb; null where ids were given. */
  readonly filter: Readonly<Record<string, unknown>> | null;
  /** How many ids were given; null where a filter was. */
  readonly ids: number | null;
  /** The sizes of the stages, the rest behind them. */
  readonly ramp: readonly number[];
  readonly ratePerSecond: number;
  readonly stopAtErrorRate: number;
  readonly settleWithinSeconds: number;
  /** False where what was done is left standing; else it is not there. */
  readonly undo?: boolean;
}

/** A bulk action as it is written first. */
export interface NewBulk {
  readonly id: string;
  readonly verb: string;
  readonly reason: string;
  readonly asked: BulkAsked;
  readonly fingerprint: string;
  readonly instanceId: string;
}

/** Bulk actions of one tenant that run at one moment: each of them takes its share of the database and of the platform. */
export const MAX_RUNNING = 5;

/** A pass that was handed over begins within moments. */
const BEGINS_WITHIN_MS = 600_000;

/**
 * The condition that nobody works on a bulk action any more, whatever its row says: its instance has failed, was ended by hand, or has
 * never come. Of `b`, and of its instance as `i`, which may be missing.
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

/** A new bulk action, while its tenant has fewer than `MAX_RUNNING`. Its list is written behind it, in the same batch. */
export function insertBulk({ tenantId, actor }: Operator, bulk: NewBulk): Statement {
  const { id, verb, reason, asked, fingerprint, instanceId } = bulk;
  return sql`
    INSERT INTO millrace_bulk_actions (id, tenant_id, actor, verb, reason, asked, fingerprint, state, instance_id, created_at, updated_at)
    SELECT ${id}, ${tenantId}, ${actor}, ${verb}, ${reason}, ${JSON.stringify(asked)}, ${fingerprint}, 'running', ${instanceId}, ${now}, ${now}
    WHERE ${HAS_ROOM(tenantId)}
    ON CONFLICT (id) DO NOTHING`;
}

/** The condition that there is such a bulk action. */
export function isMade(tenantId: string, id: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_bulk_actions WHERE id = ${id} AND tenant_id = ${tenantId})`;
}

/** The condition that the row of a bulk action is new: nobody has counted its list. */
export function isUncounted(tenantId: string, id: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_bulk_actions WHERE id = ${id} AND tenant_id = ${tenantId} AND matched IS NULL)`;
}

/** Counts its list, once, behind that. What is about nothing is complete. */
export function countList(tenantId: string, id: string): Statement {
  const hasList = sql`EXISTS (SELECT 1 FROM millrace_bulk_lists WHERE tenant_id = ${tenantId} AND bulk_id = ${id})`;
  return sql`
    UPDATE millrace_bulk_actions SET
      matched = (SELECT coalesce(sum(json_array_length(ids)), 0) FROM millrace_bulk_lists
        WHERE tenant_id = ${tenantId} AND bulk_id = ${id}),
      state = iif(${hasList}, 'running', 'complete'), ended_at = iif(${hasList}, NULL, ${now})
    WHERE id = ${id} AND tenant_id = ${tenantId} AND matched IS NULL`;
}

/** The condition that an instance is the one that works on a bulk action. */
export function isWorkedOnBy(tenantId: string, id: string, instanceId: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_bulk_actions
    WHERE id = ${id} AND tenant_id = ${tenantId} AND state = 'running' AND instance_id = ${instanceId})`;
}

/** The condition that an entry of the inbox stood as it does when a bulk action was begun: what it has counted, and nothing since. */
export function stoodAtBegin(bulkId: string): Statement {
  return sql`millrace_inbox.updated_at <= (SELECT created_at FROM millrace_bulk_actions WHERE id = ${bulkId})`;
}

/** How far a pass has come with it. */
export interface BulkStep {
  readonly id: string;
  readonly tenantId: string;
  /** The pass, and how many had been acted upon before: another pass, or the same chunk recorded before, refuses the whole write. */
  readonly pass: number;
  readonly from: number;
  /** What came of the chunk, and how many of those that had been done turned out to have failed. */
  readonly done: number;
  readonly skipped: number;
  readonly failed: number;
  readonly turned: number;
  readonly looked: number;
  readonly stage: { readonly from: number; readonly skipped: number; readonly failed: number };
  /** What it becomes, unless somebody has halted it meanwhile. */
  readonly state: Exclude<BulkState, "aborted">;
  readonly why: string | null;
  /** The instance that goes on with it, as its next pass. */
  readonly next: string | null;
}

/** Records a chunk. Where it is not this pass's to record, `done` becomes NULL, which its NOT NULL does not let be. */
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

/** An operator halts it. */
export function abortBulk({ tenantId, actor }: Operator, id: string): Statement {
  return sql`
    UPDATE millrace_bulk_actions SET state = 'aborted', why = ${`Aborted by ${actor}: nothing more is begun, and what was done stays done. A resume goes on with what is left.`}, ended_at = ${now}, updated_at = ${now}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND state = 'running'`;
}

/** An operator has it go on, as its next pass: errors are counted anew from here. */
export function resumeBulk({ tenantId }: Operator, id: string, pass: number, instanceId: string): Statement {
  return sql`
    UPDATE millrace_bulk_actions SET state = 'running', why = NULL, ended_at = NULL, pass = ${pass}, instance_id = ${instanceId},
      stage_from = done + skipped + failed, stage_skipped = skipped, stage_failed = failed, updated_at = ${now}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND pass = ${pass} - 1
      AND (state IN ('stopped', 'aborted') OR ${isLeft(id)}) AND ${HAS_ROOM(tenantId)}`;
}

/** Removes bulk actions that ended long ago, once nothing of theirs is left. Reads a small table. Answers a row for each. */
export function removeEndedBulk(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_bulk_actions WHERE id IN (
      SELECT id FROM millrace_bulk_actions b WHERE ended_at <= ${now} - ${keepMs}
        AND NOT EXISTS (SELECT 1 FROM millrace_bulk_items t WHERE t.tenant_id = b.tenant_id AND t.bulk_id = b.id)
        AND NOT EXISTS (SELECT 1 FROM millrace_bulk_lists l WHERE l.tenant_id = b.tenant_id AND l.bulk_id = b.id)
      LIMIT ${limit})
    RETURNING 1 AS gone`;
}
