import { now, type Statement, sql } from "../contract/sql.ts";

/**
 * The result of a due time of a schedule.
 * - `started`: the command was accepted
 * - `manual`: an operator ran the schedule
 * - `refused`: the command is no longer valid
 * - `missed`: no command was sent at the due time
 * - `paused`: the schedule was paused
 */
type RunState = "started" | "manual" | "refused" | "missed" | "paused";

/** The record of a schedule's due time. */
interface NewRun {
  dueAt: number;
  state: RunState;
  /** The latest due time that the record covers. The value equals `dueAt` if the record covers only one due time. */
  untilAt: number;
  /** The count of due times that this record covers. */
  times: number;
  instanceId: string | null;
  reason: string | null;
}

export interface Named {
  readonly tenantId: string;
  readonly name: string;
}

/** Writes one record for one or more due times of a schedule, under a condition. Repeating the statement changes nothing. */
export function insertRun({ tenantId, name }: Named, run: NewRun, at: number, so: Statement): Statement {
  const { dueAt, state, untilAt, times, instanceId, reason } = run;
  return sql`
    INSERT INTO millrace_schedule_runs (tenant_id, name, due_at, state, until_at, times, instance_id, reason, recorded_at)
    SELECT ${tenantId}, ${name}, ${dueAt}, ${state}, ${untilAt}, ${times}, ${instanceId}, ${reason}, ${at} WHERE ${so}
    ON CONFLICT (tenant_id, name, due_at, state) DO NOTHING`;
}

/** The condition that a due time is recorded as started. */
export function isStarted({ tenantId, name }: Named, dueAt: number): Statement {
  return sql`
    EXISTS (SELECT 1 FROM millrace_schedule_runs r
      WHERE r.tenant_id = ${tenantId} AND r.name = ${name} AND r.due_at = ${dueAt} AND r.state = 'started')`;
}

/** A run of a schedule that an operator started. */
export interface HandRun {
  instanceId: string;
  reason: string;
  /** Identifies the manual run. Two requests with the same occasion start only one run. */
  occasion: string;
}

/**
 * Records a manual run, under a condition, unless the run's occasion is already recorded. If several runs start within one millisecond,
 * different times are recorded.
 */
export function insertHandRun({ tenantId, name }: Named, { instanceId, reason, occasion }: HandRun, at: number, so: Statement): Statement {
  return sql`
    INSERT INTO millrace_schedule_runs (tenant_id, name, due_at, state, until_at, times, instance_id, reason, recorded_at, occasion)
    SELECT ${tenantId}, ${name}, free, 'manual', free, 1, ${instanceId}, ${reason}, ${at}, ${occasion}
    FROM (SELECT max(${at}, coalesce((SELECT max(due_at) + 1 FROM millrace_schedule_runs r
      WHERE r.tenant_id = ${tenantId} AND r.name = ${name} AND r.due_at >= ${at} AND r.state = 'manual'), 0)) AS free)
    WHERE ${so} ON CONFLICT (tenant_id, name, occasion) WHERE occasion IS NOT NULL DO NOTHING`;
}

/** The condition that the occasion of this run is recorded with the run's instance. */
export function isHandRun({ tenantId, name }: Named, { instanceId, occasion }: HandRun): Statement {
  return sql`
    EXISTS (SELECT 1 FROM millrace_schedule_runs r
      WHERE r.tenant_id = ${tenantId} AND r.name = ${name} AND r.occasion = ${occasion} AND r.instance_id = ${instanceId})`;
}

/**
 * Removes old records of schedule runs. The statement scans the whole table of schedule runs. The statement returns a row for each removed
 * row.
 */
export function removeRuns(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_schedule_runs WHERE (tenant_id, name, due_at, state) IN (
      SELECT tenant_id, name, due_at, state FROM millrace_schedule_runs WHERE until_at <= ${now} - ${keepMs} LIMIT ${limit})
    RETURNING 1 AS gone`;
}
