import { KEEPER_PATIENCE_MS } from "../../contract/patience.ts";
import { now, type RowStatement, type Statement, sql } from "../../contract/sql.ts";
import { wentOnFrom } from "../inbox/caught.ts";
import { hasDoubt } from "../inbox/read.ts";
import { leftWith } from "./left.ts";
import { AWAKE, AWAKENED, ENDED, FAILED, type InstanceStatus, IS_CLOSED, isClosed, RETRYABLE, UNSEEN } from "./status.ts";
import { hasToTakeBack } from "./undoable.ts";

/**
 * The instance is at work (again). One in doubt stays so, whatever its other steps do: only the operator's answer ends that. One that
 * was believed dead, because its message was exhausted, lives. What wakes up is looked at soon: while it slept, nobody came by.
 */
export function markRunning(id: string): RowStatement {
  return { text: MARK_RUNNING, row: { id } };
}

const MARK_RUNNING = `
  UPDATE millrace_instances SET status = 'running', updated_at = ${now.fragment}
  WHERE id IN (SELECT value->>'id' FROM json_each(?1)) AND status IN ${UNSEEN.fragment}`;

/**
 * The same for one that waited, or was believed dead or over; also where an operator gave its message up while it was being started: the
 * row says what happens. A statement of its own: a changed time of the next look is one written row more.
 */
export function markAwake(id: string): RowStatement {
  return { text: MARK_AWAKE, row: { id } };
}

const MARK_AWAKE = `
  UPDATE millrace_instances SET status = ${AWAKE.fragment}, error = NULL, updated_at = ${now.fragment}, seen = 1,
    check_at = ${now.fragment} + ${KEEPER_PATIENCE_MS}
  WHERE id IN (SELECT value->>'id' FROM json_each(?1)) AND status IN ${AWAKENED.fragment} AND NOT ${IS_CLOSED.fragment}`;

/** Whether a row that stands so is one that `markAwake` moves on. */
export function isAsleep(standing: Standing): boolean {
  return AWAKENED.has(standing.status) && !isClosed(standing);
}

/** The row took a run for over, and the platform says that it runs. */
export function revive({ id, run }: { id: string; run: number }): Statement {
  return sql`
    UPDATE millrace_instances SET status = ${AWAKE}, error = NULL, updated_at = ${now}
    WHERE id = ${id} AND run = ${run} AND status IN ${FAILED}`;
}

/** How a run of an instance ended. */
export interface End {
  readonly id: string;
  /** Which of the instance's runs: an operator's retry or undo begins the next one. */
  readonly run: number;
  readonly status: Extract<InstanceStatus, "complete" | "errored" | "terminated">;
  /** Why, as JSON; null unless it errored. */
  readonly error: string | null;
  /** What it has in common with others that failed for the same reason (`causeId`); nothing unless it errored. */
  readonly cause?: string | undefined;
  /** What it leaves to the next run (see `LeftBehind`), as JSON; nothing where nobody knows, and what it was told itself still holds. */
  readonly left?: string | null;
  /** What the run used of the platform, by its number, as JSON (see `Spending`); nothing where nobody counted. */
  readonly spent?: string;
}

/**
 * A run ended. Told by any run but the present one, it is no news: an operator has begun another since. Within a run what succeeded
 * replaces what failed (a pass that was given up may be followed by one that went through), never the other way. The keeper looks once more
 * at what errored.
 */
export function finishInstance(end: End): RowStatement {
  return { text: FINISH, row: { ...end } };
}

const FINISH = `
  UPDATE millrace_instances SET status = r.value->>'status', error = r.value->>'error',
    undone = undo IS NOT NULL AND r.value->>'status' = 'terminated',
    caught = iif(r.value->>'left' IS NULL, caught, ${leftWith(sql`r.value->>'left'`).text}),
    spent = coalesce(json_patch(coalesce(spent, '{}'), r.value->>'spent'), spent), cause = r.value->>'cause', updated_at = ${now.fragment}, seen = 1,
    check_at = iif(r.value->>'status' = 'errored', ${now.fragment} + ${KEEPER_PATIENCE_MS}, NULL)
  FROM json_each(?1) r
  WHERE millrace_instances.id = r.value->>'id' AND millrace_instances.run = r.value->>'run'
    AND (r.value->>'status' <> 'errored' OR NOT EXISTS (SELECT 1 FROM json_each(?1) other
      WHERE other.value->>'id' = r.value->>'id' AND other.value->>'run' = r.value->>'run' AND other.value->>'status' <> 'errored'))
    AND (millrace_instances.status NOT IN ${ENDED.fragment}
      OR (millrace_instances.status = 'errored' AND r.value->>'status' <> 'errored'))
    AND (millrace_instances.undo IS NULL OR r.value->>'status' <> 'complete')
    AND NOT ${IS_CLOSED.fragment}`;

/** How an instance stands, as its row says: in which run, how far, and which action has it undone. */
export interface Standing {
  readonly run: number;
  readonly status: InstanceStatus;
  readonly undo: string | null;
}

/** How an instance stands, asked for many at once: each row says whose it is. */
export function selectRun(id: string): RowStatement {
  return { text: SELECT_RUN, row: { id } };
}

const SELECT_RUN = `
  SELECT id, run, undo, status FROM millrace_instances WHERE id IN (SELECT value->>'id' FROM json_each(?1))`;

/**
 * What the runs of an instance have left, by the end of the last one or the retry that began the present one; and the steps whose records
 * a database that was set back has lost.
 */
export function selectLeft(instanceId: string): Statement {
  return sql`SELECT caught, lost FROM millrace_instances WHERE id = ${instanceId}`;
}

/** What a run leaves to later passes in its midst (see `LeftBehind`), as JSON. */
export function keepCaught(id: string, left: string): Statement {
  return sql`UPDATE millrace_instances SET caught = ${leftWith(sql`${left}`)} WHERE id = ${id}`;
}

/** A run that an operator begins. */
export interface NextRun {
  readonly id: string;
  readonly tenantId: string;
  /** Its number: one more than that of the run that was read. */
  readonly run: number;
  /** What it is told besides what the runs before have left (see `LeftBehind`), as JSON. */
  readonly left: string;
}

/** A retry, and what stands against it. */
interface Retry extends NextRun {
  /** True where it begins anew with all, and is told nothing of the runs before. */
  readonly isAnew: boolean;
  /** The step on whose failure nothing may depend that was done; null when none has to be free. */
  readonly named: string | null;
  /** What may have happened because that step failed, though nothing recorded says so. */
  readonly wentOn: string | undefined;
  /** Why it would fail of the same again; null when it need not. */
  readonly again: string | null;
}

/** An operator's retry begins the next run; of one that is undone, from its beginning. */
export function beginRetry({ id, tenantId, run, left, isAnew, named, wentOn, again }: Retry): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'running', run = ${run}, error = NULL, caught = ${isAnew ? null : leftWith(sql`${left}`)},
      undo = iif(status = 'terminated', NULL, undo), undone = 0, updated_at = ${now}, check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status IN ${RETRYABLE} AND run < ${run}
      AND ${wentOn === undefined && again === null ? 1 : 0} AND NOT EXISTS (${wentOnFrom(id, named)})`;
}

/** An operator's undo begins the run that takes back what the others did. */
export function beginUndo({ id, tenantId, run, left }: NextRun, actionId: string): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'running', run = ${run}, error = NULL, caught = ${leftWith(sql`${left}`)}, undo = ${actionId},
      updated_at = ${now}, check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status IN ${ENDED} AND undo IS NULL AND run < ${run}
      AND NOT ${hasDoubt(id)} AND ${hasToTakeBack(tenantId, id)}`;
}

/** A retry or an undo that could not be carried out. */
export interface GivenUpRun {
  /** The action's id. */
  readonly id: string;
  readonly instance: string;
  /** The run that it began. */
  readonly run: number | null;
  readonly failure: object;
  /** Of that failure (`causeId`). */
  readonly cause: string;
}

/**
 * The instances of retries and undos that were given up: they do not run, and their rows say so. Behind the statement that gives those up.
 */
export function giveUpRuns(given: readonly GivenUpRun[]): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'errored', error = f.value->'failure', cause = f.value->>'cause', updated_at = ${now},
      check_at = ${now} + ${KEEPER_PATIENCE_MS}
    FROM json_each(${JSON.stringify(given)}) f
    WHERE millrace_instances.id = f.value->>'instance' AND (status = 'running' OR status = 'paused') AND run = f.value->>'run'
      AND EXISTS (SELECT 1 FROM millrace_actions WHERE millrace_actions.id = f.value->>'id' AND result = 'failed')`;
}
