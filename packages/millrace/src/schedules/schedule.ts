import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { timestamp } from "../contract/row.ts";
import { fragment, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import type { Accepted } from "../intake/accept/enqueue.ts";
import type { Operator } from "../store/actions.ts";
import { positionBy, rowPage, selectRows } from "../store/d1/named.ts";
import type { Page, PageRequest } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";
import type { Named } from "../store/schedule-runs.ts";
import type { ScheduleState } from "../store/schedules.ts";
import { COUNTED_TIMES } from "./cron.ts";

export const ScheduleRun = z
  .object({
    due_at: timestamp,
    state: z.enum(["started", "manual", "refused", "missed", "paused"]),
    until: timestamp.meta({ description: "The last due time that the record covers." }),
    times: z.int().meta({ description: `The number of due times that the record covers; ${COUNTED_TIMES} means at least this number.` }),
    instance_id: z.string().nullable(),
    reason: z.string().nullable(),
    recorded_at: timestamp,
  })
  .meta({ id: "ScheduleRun" });
export type ScheduleRun = z.infer<typeof ScheduleRun>;

export const Schedule = z
  .object({
    name: z.string(),
    cron: z.string(),
    time_zone: z.string(),
    command: z.object({ type: z.string(), schema_version: z.int(), payload: z.unknown() }),
    late_seconds: z.int(),
    state: z.enum(["active", "paused"]),
    next_at: timestamp.nullable().meta({ description: "The next due time; null while the schedule is paused." }),
    last_run: ScheduleRun.nullable(),
    revision: z.int(),
    changed_at: timestamp,
    changed_by: z.string(),
  })
  .meta({ id: "Schedule" });
export type Schedule = z.infer<typeof Schedule>;

const COLUMNS = fragment(`name, cron, time_zone,
  json_object('type', command, 'schema_version', schema_version, 'payload', json(payload)) AS command,
  late_ms / 1000 AS late_seconds, state, next_at, revision, changed_at, changed_by,
  (SELECT json_object('due_at', due_at, 'state', state, 'until', until_at, 'times', times,
      'instance_id', instance_id, 'reason', reason, 'recorded_at', recorded_at) FROM millrace_schedule_runs r
    WHERE r.tenant_id = millrace_schedules.tenant_id AND r.name = millrace_schedules.name
    ORDER BY due_at DESC, state DESC LIMIT 1) AS last_run`);

/** A tenant's schedules whose names come after the given name, in the order of their names. */
export function listSchedules(env: EngineEnv, by: Operator, { after, limit }: { after: string; limit: number }): Promise<Schedule[]> {
  return selectRows(
    env.DB,
    Schedule,
    sql`SELECT ${COLUMNS} FROM millrace_schedules WHERE tenant_id = ${by.tenantId} AND name > ${after} ORDER BY name LIMIT ${limit}`,
  );
}

/** Reads a schedule. Errors: `schedule_not_found`, even if another tenant has a schedule with this name. */
export async function getSchedule(env: EngineEnv, by: Operator, name: string): Promise<Schedule> {
  const [found] = await selectRows(
    env.DB,
    Schedule,
    sql`SELECT ${COLUMNS} FROM millrace_schedules WHERE tenant_id = ${by.tenantId} AND name = ${name}`,
  );
  return found ?? unknownSchedule(name);
}

function unknownSchedule(name: string): never {
  throw new MillraceError(
    "schedule_not_found",
    `There is no schedule "${beginning(name, 64)}". List them with GET /v1/schedules; PUT makes one.`,
  );
}

/** The runs of a schedule, newest first. Runs of a deleted schedule can be read until they are pruned. */
export function listScheduleRuns(env: EngineEnv, by: Operator, name: string, request: PageRequest): Promise<Page<ScheduleRun>> {
  return rowPage(ScheduleRun, request, positionBy("due_at", "state"), (before, limit) =>
    query(
      env.DB,
      sql`
        SELECT due_at, state, until_at AS until, times, instance_id, reason, recorded_at FROM millrace_schedule_runs
        WHERE tenant_id = ${by.tenantId} AND name = ${name} AND (due_at, state) < (${before.at}, ${before.id})
        ORDER BY due_at DESC, state DESC LIMIT ${limit}`,
    ),
  );
}

/** A schedule as its row stores it, with the parsed payload. */
export interface StoredSchedule {
  tenantId: string;
  name: string;
  cron: string;
  timeZone: string;
  command: string;
  /** The version of the payload. The command's present version upcasts an older payload. */
  schemaVersion: number;
  payload: unknown;
  /** Maximum delay of a run after its due time, in milliseconds. A run with a longer delay is recorded as missed. */
  lateMs: number;
  state: ScheduleState;
  /** The next due time. Null while the schedule is paused, and if its pattern has no further due time. */
  nextAt: number | null;
  revision: number;
  changedAt: number;
  changedBy: string;
  /** The latest due time with a record, which must not become due again. This time may be in the future if the clock was set back. */
  takenUntil: number;
}

export async function storedSchedules(db: D1Database, where: Statement): Promise<StoredSchedule[]> {
  const rows = await query<StoredSchedule & { payload: string }>(
    db,
    sql`
      SELECT tenant_id AS tenantId, name, cron, time_zone AS timeZone, command, schema_version AS schemaVersion, payload, late_ms AS lateMs,
        state, next_at AS nextAt, revision, changed_at AS changedAt, changed_by AS changedBy,
        coalesce((SELECT until_at FROM millrace_schedule_runs r
          WHERE r.tenant_id = millrace_schedules.tenant_id AND r.name = millrace_schedules.name AND r.state <> 'manual'
          ORDER BY due_at DESC, state DESC LIMIT 1), 0) AS takenUntil
      FROM millrace_schedules WHERE ${where}`,
  );
  return rows.map((row) => ({ ...row, payload: JSON.parse(row.payload) }));
}

/** Errors: `schedule_not_found`. */
export async function storedSchedule(env: EngineEnv, by: Operator, name: string): Promise<StoredSchedule> {
  const [found] = await storedSchedules(env.DB, sql`tenant_id = ${by.tenantId} AND name = ${name}`);
  return found ?? unknownSchedule(name);
}

/** The run of a manual request. Undefined if no record of the request exists, for example because it was pruned. */
export async function findHandRun(env: EngineEnv, { tenantId, name }: Named, occasion: string): Promise<HandRun | undefined> {
  const [found] = await query<HandRun>(
    env.DB,
    sql`
      SELECT instance_id AS instanceId, coalesce((SELECT status FROM millrace_instances WHERE id = instance_id), 'pruned') AS status
      FROM millrace_schedule_runs WHERE tenant_id = ${tenantId} AND name = ${name} AND occasion = ${occasion}`,
  );
  return found;
}

/** The instance of a manual run. */
type HandRun = Pick<Accepted, "instanceId" | "status">;
