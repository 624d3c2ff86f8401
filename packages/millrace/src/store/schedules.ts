import { type Statement, sql } from "../contract/sql.ts";

/** The state of a schedule. An operator pauses an active schedule, and resumes a paused schedule. */
export type ScheduleState = "active" | "paused";

/** A new schedule, due from `nextAt`. */
export interface NewSchedule {
  readonly tenantId: string;
  readonly name: string;
  readonly cron: string;
  readonly timeZone: string;
  readonly command: string;
  /** The version of the command's payload. */
  readonly schemaVersion: number;
  readonly payload: unknown;
  readonly lateMs: number;
  /** The next due time; null when the schedule's pattern has none. */
  readonly nextAt: number | null;
  readonly changedAt: number;
  readonly changedBy: string;
}

/** The fields of a schedule that was read. A write requires that the fields have not changed after the read. */
interface Read {
  readonly tenantId: string;
  readonly name: string;
  readonly revision: number;
  readonly nextAt: number | null;
}

/** The condition that a schedule has not changed since it was read, and that the schedule's next due time is not claimed. */
export function isUnmoved({ tenantId, name, revision, nextAt }: Read): Statement {
  return sql`
    EXISTS (SELECT 1 FROM millrace_schedules s
      WHERE s.tenant_id = ${tenantId} AND s.name = ${name} AND s.revision = ${revision} AND s.next_at IS ${nextAt})`;
}

/** The condition that the tenant has fewer than the maximum number of schedules. */
export function hasRoom(tenantId: string, most: number): Statement {
  return sql`(SELECT count(*) FROM millrace_schedules WHERE tenant_id = ${tenantId}) < ${most}`;
}

/**
 * Creates a schedule if its tenant has fewer than the maximum number of schedules, or overwrites the schedule that was read. A paused
 * schedule stays paused.
 */
export function writeSchedule(schedule: NewSchedule, before: Read | undefined, most: number): Statement {
  return sql`
    ${insertSchedule(schedule, before)} WHERE ${before ? isUnmoved(before) : hasRoom(schedule.tenantId, most)}
    ON CONFLICT (tenant_id, name) DO UPDATE SET
      cron = excluded.cron, time_zone = excluded.time_zone, command = excluded.command, schema_version = excluded.schema_version,
      payload = excluded.payload, late_ms = excluded.late_ms,
      next_at = iif(millrace_schedules.state = 'active', excluded.next_at, NULL), revision = millrace_schedules.revision + 1,
      changed_at = excluded.changed_at, changed_by = excluded.changed_by
    WHERE ${before ? sql`true` : sql`false`}`;
}

/** Creates a schedule in the same batch as other statements. An existing schedule remains unchanged. */
export function ensureScheduled(schedule: NewSchedule): Statement {
  return sql`${insertSchedule(schedule)} WHERE true ON CONFLICT (tenant_id, name) DO NOTHING`;
}

/**
 * The revision of a schedule without a row. It continues after the revision of a deleted schedule with the same name, which is in the
 * audit. Otherwise a change that is based on the deleted schedule could overwrite the new schedule.
 */
function firstRevision({ tenantId, name }: NewSchedule): Statement {
  return sql`
    1 + coalesce((SELECT max(detail->>'revision') FROM millrace_actions
      WHERE tenant_id = ${tenantId} AND target = ${name} AND verb = 'unschedule' AND result = 'applied'), 0)`;
}

function insertSchedule(schedule: NewSchedule, before?: Read): Statement {
  const { tenantId, name, cron, timeZone, command, schemaVersion, payload, lateMs, nextAt, changedAt, changedBy } = schedule;
  return sql`
    INSERT INTO millrace_schedules (tenant_id, name, cron, time_zone, command, schema_version, payload, late_ms, state, next_at,
      revision, changed_at, changed_by)
    SELECT ${tenantId}, ${name}, ${cron}, ${timeZone}, ${command}, ${schemaVersion}, ${JSON.stringify(payload)}, ${lateMs},
      'active', ${nextAt}, ${before ? sql`${before.revision}` : firstRevision(schedule)}, ${changedAt}, ${changedBy}`;
}

/**
 * Pauses or resumes a schedule, if it has not changed since it was read. The same write records the schedule's due times under the same
 * condition.
 */
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
 * Claims a schedule's due time by setting the next due time. The statement must follow the statements that record the due time, because
 * those statements require that the schedule has not changed.
 */
export function takeTime({ tenantId, name, revision, nextAt }: Read, next: number | null): Statement {
  return sql`
    UPDATE millrace_schedules SET next_at = ${next}
    WHERE tenant_id = ${tenantId} AND name = ${name} AND revision = ${revision} AND next_at = ${nextAt}`;
}

/** Deletes a schedule, if it has not changed since it was read. */
export function removeSchedule({ tenantId, name, revision, nextAt }: Read): Statement {
  return sql`
    DELETE FROM millrace_schedules
    WHERE tenant_id = ${tenantId} AND name = ${name} AND revision = ${revision} AND next_at IS ${nextAt}`;
}
