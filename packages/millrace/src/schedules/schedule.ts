import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { fragment, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import type { Accepted } from "../intake/accept/enqueue.ts";
import type { Operator } from "../store/actions.ts";
import { keysetPage, type Page, type PageRequest } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";
import type { Named, ScheduleRun } from "../store/schedule-runs.ts";
import type { ScheduleState } from "../store/schedules.ts";

/** A command with due times. */
export interface Schedule {
  tenantId: string;
  name: string;
  cron: string;
  timeZone: string;
  command: string;
  payload: unknown;
  /** A run that would start later than this is missed. In milliseconds. */
  lateMs: number;
  state: ScheduleState;
  /** Null while it is paused, and when its pattern has no further due time. */
  nextAt: number | null;
  revision: number;
  changedAt: number;
  changedBy: string;
  lastRun: ScheduleRun | null;
}

const RUN = fragment(
  `json_object('dueAt', due_at, 'state', state, 'untilAt', until_at, 'times', times,
    'instanceId', instance_id, 'reason', reason, 'notedAt', noted_at)`,
);

/** Columns under the names of `Schedule`; the newest run as JSON. */
const COLUMNS = fragment(`tenant_id AS tenantId, name, cron, time_zone AS timeZone, command, payload,
    late_ms AS lateMs, state, next_at AS nextAt, revision,
    changed_at AS changedAt, changed_by AS changedBy,
    (SELECT ${RUN.fragment} FROM millrace_schedule_runs r
      WHERE r.tenant_id = millrace_schedules.tenant_id AND r.name = millrace_schedules.name
        ORDER BY due_at DESC, state DESC LIMIT 1) AS lastRun`);

export async function selectSchedules(db: D1Database, where: Statement): Promise<Schedule[]> {
  const rows = await query<Omit<Schedule, "payload" | "lastRun"> & { payload: string; lastRun: string | null }>(
    db,
    sql`SELECT ${COLUMNS} FROM millrace_schedules WHERE ${where}`,
  );
  return rows.map((row) => ({ ...row, payload: JSON.parse(row.payload), lastRun: row.lastRun === null ? null : JSON.parse(row.lastRun) }));
}

/** A tenant's schedules in the order of their names, after a given name. */
export function listSchedules(env: EngineEnv, by: Operator, { after, limit }: { after: string; limit: number }): Promise<Schedule[]> {
  return selectSchedules(env.DB, sql`tenant_id = ${by.tenantId} AND name > ${after} ORDER BY name LIMIT ${limit}`);
}

/** Reads a schedule. Errors: `schedule_not_found`, also for another tenant's schedule. */
export async function getSchedule(env: EngineEnv, by: Operator, name: string): Promise<Schedule> {
  const [found] = await selectSchedules(env.DB, sql`tenant_id = ${by.tenantId} AND name = ${name}`);
  if (found) return found;
  throw new MillraceError(
    "schedule_not_found",
    `There is no schedule "${beginning(name, 64)}". List them with GET /v1/schedules; PUT makes one.`,
  );
}

/** The runs of a schedule, newest first. Runs of a deleted schedule can be read until they are pruned. */
export function listScheduleRuns(env: EngineEnv, by: Operator, name: string, request: PageRequest): Promise<Page<ScheduleRun>> {
  return keysetPage(
    request,
    ({ dueAt, state }: ScheduleRun) => ({ at: dueAt, id: state }),
    async (before, limit) => {
      const rows = await query<{ run: string }>(
        env.DB,
        sql`
          SELECT ${RUN} AS run FROM millrace_schedule_runs
          WHERE tenant_id = ${by.tenantId} AND name = ${name} AND (due_at, state) < (${before.at}, ${before.id})
          ORDER BY due_at DESC, state DESC LIMIT ${limit}`,
      );
      return rows.map(({ run }) => JSON.parse(run) as ScheduleRun);
    },
  );
}

/** The run of a manual request; undefined if there is none, or its record was pruned. */
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
