import { type Statement, sql } from "../contract/sql.ts";

/** The states of a schedule. An operator pauses an active one, and resumes a paused one. */
export type ScheduleState = "active" | "paused";

/** A schedule as it is written first: due as of `nextAt`. */
export interface NewSchedule {
  readonly tenantId: string;
  readonly name: string;
  readonly cron: string;
  readonly timeZone: string;
  readonly command: string;
  readonly payload: unknown;
  readonly lateMs: number;
  /** Null where its pattern has no more times. */
  readonly nextAt: number | null;
  readonly changedAt: number;
  readonly changedBy: string;
}

/** A schedule as it was read: what is written over it hangs on its being so still. */
interface Read {
  readonly tenantId: string;
  readonly name: string;
  readonly revision: number;
  readonly nextAt: number | null;
}

/** The condition that a schedule is as it was read: neither changed, nor ended, nor its next time taken. */
export function isUnmoved({ tenantId, name, revision, nextAt }: Read): Statement {
  return sql`
    EXISTS (SELECT 1 FROM millrace_schedules s
      WHERE s.tenant_id = ${tenantId} AND s.name = ${name} AND s.revision = ${revision} AND s.next_at IS ${nextAt})`;
}

/** The condition that a tenant may have one more. */
export function hasRoom(tenantId: string, most: number): Statement {
  return sql`(SELECT count(*) FROM millrace_schedules WHERE tenant_id = ${tenantId}) < ${most}`;
}

/** Makes a schedule where none was read and its tenant has room, or writes it over the one that was read; a paused one stays paused. */
export function writeSchedule(schedule: NewSchedule, before: Read | undefined, most: number): Statement {
  return sql`
    ${insertSchedule(schedule)} WHERE ${before ? isUnmoved(before) : hasRoom(schedule.tenantId, most)}
    ON CONFLICT (tenant_id, name) DO UPDATE SET
      cron = excluded.cron, time_zone = excluded.time_zone, command = excluded.command, payload = excluded.payload,
      late_ms = excluded.late_ms,
      next_at = iif(millrace_schedules.state = 'active', excluded.next_at, NULL), revision = millrace_schedules.revision + 1,
      changed_at = excluded.changed_at, changed_by = excluded.changed_by
    WHERE ${before ? sql`true` : sql`false`}`;
}

/** Makes a schedule that comes with something else. One of this name stays as it is. */
export function ensureScheduled(schedule: NewSchedule): Statement {
  return sql`${insertSchedule(schedule)} WHERE true ON CONFLICT (tenant_id, name) DO NOTHING`;
}

function insertSchedule(schedule: NewSchedule): Statement {
  const { tenantId, name, cron, timeZone, command, payload, lateMs, nextAt, changedAt, changedBy } = schedule;
  return sql`
    INSERT INTO millrace_schedules (tenant_id, name, cron, time_zone, command, payload, late_ms, state, next_at, changed_at, changed_by)
    SELECT ${tenantId}, ${name}, ${cron}, ${timeZone}, ${command}, ${JSON.stringify(payload)}, ${lateMs},
      'active', ${nextAt}, ${changedAt}, ${changedBy}`;
}

/** Pauses a schedule, or resumes it, if it is as it was read: what is noted of its times in the same write hangs on that too. */
export function moveSchedule(
  before: Read,
  { state, nextAt, at, by }: { state: ScheduleState; nextAt: number | null; at: number; by: string },
): Statement {
  const from: ScheduleState = state === "paused" ? "active" : "paused";
  return sql`
    UPDATE millrace_schedules SET state = ${state}, next_at = ${nextAt}, revision = revision + 1, changed_at = ${at}, changed_by = ${by}
    WHERE tenant_id = ${before.tenantId} AND name = ${before.name} AND state = ${from}
      AND revision = ${before.revision} AND next_at IS ${before.nextAt}`;
}

/**
 * Takes the time that is due: the next one is. The last of a time's notes, because they ask whether the schedule is still as it was read.
 */
export function takeTime({ tenantId, name, revision, nextAt }: Read, next: number | null): Statement {
  return sql`
    UPDATE millrace_schedules SET next_at = ${next}
    WHERE tenant_id = ${tenantId} AND name = ${name} AND revision = ${revision} AND next_at = ${nextAt}`;
}

/** Ends a schedule, if it is as it was read. */
export function removeSchedule({ tenantId, name, revision, nextAt }: Read): Statement {
  return sql`
    DELETE FROM millrace_schedules
    WHERE tenant_id = ${tenantId} AND name = ${name} AND revision = ${revision} AND next_at IS ${nextAt}`;
}
