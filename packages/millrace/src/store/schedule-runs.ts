import { now, type Statement, sql } from "../contract/sql.ts";

/**
 * The states of a time that was due, for good. `started`: its command was accepted · `by_hand`: somebody ran it · `refused`: the command
 * is not valid (any more) · `missed`: nothing ran then · `paused`: nothing was to run then.
 */
export type RunState = "started" | "by_hand" | "refused" | "missed" | "paused";

/** What became of a time that was due. */
export interface ScheduleRun {
  dueAt: number;
  state: RunState;
  /** The last of the times it tells of; the same as `dueAt` where it is one. */
  untilAt: number;
  /** How many times it tells of. */
  times: number;
  instanceId: string | null;
  reason: string | null;
  notedAt: number;
}

/** Whose schedule, by name. */
export interface Named {
  readonly tenantId: string;
  readonly name: string;
}

/** Notes what became of one time, or of several, if this is so when it is written. A repeat changes nothing. */
export function insertRun({ tenantId, name }: Named, run: Omit<ScheduleRun, "notedAt">, at: number, so: Statement): Statement {
  const { dueAt, state, untilAt, times, instanceId, reason } = run;
  return sql`
    INSERT INTO millrace_schedule_runs (tenant_id, name, due_at, state, until_at, times, instance_id, reason, noted_at)
    SELECT ${tenantId}, ${name}, ${dueAt}, ${state}, ${untilAt}, ${times}, ${instanceId}, ${reason}, ${at} WHERE ${so}
    ON CONFLICT (tenant_id, name, due_at, state) DO NOTHING`;
}

/** The condition that a time is noted as started. */
export function isStarted({ tenantId, name }: Named, dueAt: number): Statement {
  return sql`
    EXISTS (SELECT 1 FROM millrace_schedule_runs r
      WHERE r.tenant_id = ${tenantId} AND r.name = ${name} AND r.due_at = ${dueAt} AND r.state = 'started')`;
}

/** A run that somebody asked for. */
export interface HandRun {
  instanceId: string;
  reason: string;
  /** Names the wish: one of it is one run. */
  occasion: string;
}

/**
 * Notes a run by hand if this is so when it is written, and its wish is not noted yet. Where several come in one millisecond, each has a
 * millisecond of its own.
 */
export function insertHandRun({ tenantId, name }: Named, { instanceId, reason, occasion }: HandRun, at: number, so: Statement): Statement {
  return sql`
    INSERT INTO millrace_schedule_runs (tenant_id, name, due_at, state, until_at, times, instance_id, reason, noted_at, occasion)
    SELECT ${tenantId}, ${name}, free, 'by_hand', free, 1, ${instanceId}, ${reason}, ${at}, ${occasion}
    FROM (SELECT max(${at}, coalesce((SELECT max(due_at) + 1 FROM millrace_schedule_runs r
      WHERE r.tenant_id = ${tenantId} AND r.name = ${name} AND r.due_at >= ${at} AND r.state = 'by_hand'), 0)) AS free)
    WHERE ${so} ON CONFLICT (tenant_id, name, occasion) WHERE occasion IS NOT NULL DO NOTHING`;
}

/** The condition that a wish has become this run, and no other. */
export function isHandRun({ tenantId, name }: Named, { instanceId, occasion }: HandRun): Statement {
  return sql`
    EXISTS (SELECT 1 FROM millrace_schedule_runs r
      WHERE r.tenant_id = ${tenantId} AND r.name = ${name} AND r.occasion = ${occasion} AND r.instance_id = ${instanceId})`;
}

/** Removes what became of times long ago. Reads the table. Answers a row for each. */
export function removeRuns(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_schedule_runs WHERE (tenant_id, name, due_at, state) IN (
      SELECT tenant_id, name, due_at, state FROM millrace_schedule_runs WHERE until_at <= ${now} - ${keepMs} LIMIT ${limit})
    RETURNING 1 AS gone`;
}
