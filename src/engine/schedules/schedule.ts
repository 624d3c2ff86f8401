import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { fragment, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import type { Operator } from "../operate/audit.ts";
import { keysetPage, type Page, type PageRequest } from "../operate/paging.ts";
import { query } from "../store/retry.ts";

/** A command that is due by the clock. */
export interface Schedule {
  tenantId: string;
  name: string;
  cron: string;
  timeZone: string;
  command: string;
  payload: unknown;
  /** Milliseconds: a run that would begin later than this is missed. */
  lateMs: number;
  state: "active" | "paused";
  /** Null while it is paused, and when its pattern has no more times. */
  nextAt: number | null;
  revision: number;
  changedAt: number;
  changedBy: string;
  lastRun: ScheduleRun | null;
}

/**
 * What became of a time that was due. `started`: its command was accepted · `by_hand`: somebody ran it · `refused`: the command is not
 * valid (any more) · `missed`: nothing ran then · `paused`: nothing was to run then.
 */
export interface ScheduleRun {
  dueAt: number;
  state: "started" | "by_hand" | "refused" | "missed" | "paused";
  /** The last of the times it tells of; the same as `dueAt` where it is one. */
  untilAt: number;
  /** How many times it tells of. */
  times: number;
  instanceId: string | null;
  reason: string | null;
  notedAt: number;
}

const RUN = fragment(
  `json_object('dueAt', due_at, 'state', state, 'untilAt', until_at, 'times', times, 'instanceId', instance_id, 'reason', reason, 'notedAt', noted_at)`,
);

/** Columns under the names of `Schedule`; the newest run as JSON. */
const COLUMNS =
  fragment(`tenant_id AS tenantId, name, cron, time_zone AS timeZone, command, payload, late_ms AS lateMs, state, next_at AS nextAt, revision,
    changed_at AS changedAt, changed_by AS changedBy,
    (SELECT ${RUN.fragment} FROM schedule_runs r WHERE r.tenant_id = schedules.tenant_id AND r.name = schedules.name ORDER BY due_at DESC LIMIT 1) AS lastRun`);

/** The schedules that this condition names. */
export async function selectSchedules(db: D1Database, where: Statement): Promise<Schedule[]> {
  const rows = await query<Omit<Schedule, "payload" | "lastRun"> & { payload: string; lastRun: string | null }>(
    db,
    sql`SELECT ${COLUMNS} FROM schedules WHERE ${where}`,
  );
  return rows.map((row) => ({ ...row, payload: JSON.parse(row.payload), lastRun: row.lastRun === null ? null : JSON.parse(row.lastRun) }));
}

/** A tenant's schedules by name: so many behind a name. */
export function listSchedules(env: EngineEnv, by: Operator, { after, limit }: { after: string; limit: number }): Promise<Schedule[]> {
  return selectSchedules(env.DB, sql`tenant_id = ${by.tenantId} AND name > ${after} ORDER BY name LIMIT ${limit}`);
}

/** Errors: `schedule_not_found`, also for another tenant's. */
export async function getSchedule(env: EngineEnv, by: Operator, name: string): Promise<Schedule> {
  const [found] = await selectSchedules(env.DB, sql`tenant_id = ${by.tenantId} AND name = ${name}`);
  if (found) return found;
  throw new MillraceError(
    "schedule_not_found",
    `There is no schedule "${beginning(name, 64)}". List them with GET /v1/schedules; PUT makes one.`,
  );
}

/** What became of a schedule's times, newest first. Those of a deleted schedule can be read until they are pruned. */
export function listScheduleRuns(env: EngineEnv, by: Operator, name: string, request: PageRequest): Promise<Page<ScheduleRun>> {
  return keysetPage(
    request,
    ({ dueAt, state }: ScheduleRun) => ({ at: dueAt, id: state }),
    async (before, limit) => {
      const rows = await query<{ run: string }>(
        env.DB,
        sql`
          SELECT ${RUN} AS run FROM schedule_runs
          WHERE tenant_id = ${by.tenantId} AND name = ${name} AND (due_at, state) < (${before.at}, ${before.id})
          ORDER BY due_at DESC, state DESC LIMIT ${limit}`,
      );
      return rows.map(({ run }) => JSON.parse(run) as ScheduleRun);
    },
  );
}

/** Whose schedule, by name. */
type Named = Pick<Schedule, "tenantId" | "name">;

/** Notes what became of one time, or of several, if this is so when it is written. A repeat changes nothing. */
export function insertRun({ tenantId, name }: Named, run: Omit<ScheduleRun, "notedAt">, at: number, so: Statement): Statement {
  const { dueAt, state, untilAt, times, instanceId, reason } = run;
  return sql`
    INSERT INTO schedule_runs (tenant_id, name, due_at, state, until_at, times, instance_id, reason, noted_at)
    SELECT ${tenantId}, ${name}, ${dueAt}, ${state}, ${untilAt}, ${times}, ${instanceId}, ${reason}, ${at} WHERE ${so}
    ON CONFLICT (tenant_id, name, due_at, state) DO NOTHING`;
}

/** The condition that a schedule is as it was read: neither changed, nor ended, nor its next time taken. */
export function isUnmoved({ tenantId, name, revision, nextAt }: Schedule): Statement {
  return sql`
    EXISTS (SELECT 1 FROM schedules s WHERE s.tenant_id = ${tenantId} AND s.name = ${name} AND s.revision = ${revision} AND s.next_at IS ${nextAt})`;
}

/** The condition that a time is noted as started. */
export function isStarted({ tenantId, name }: Named, dueAt: number): Statement {
  return sql`
    EXISTS (SELECT 1 FROM schedule_runs r WHERE r.tenant_id = ${tenantId} AND r.name = ${name} AND r.due_at = ${dueAt} AND r.state = 'started')`;
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
    INSERT INTO schedule_runs (tenant_id, name, due_at, state, until_at, times, instance_id, reason, noted_at, occasion)
    SELECT ${tenantId}, ${name}, free, 'by_hand', free, 1, ${instanceId}, ${reason}, ${at}, ${occasion}
    FROM (SELECT max(${at}, coalesce((SELECT max(due_at) + 1 FROM schedule_runs r
      WHERE r.tenant_id = ${tenantId} AND r.name = ${name} AND r.due_at >= ${at} AND r.state = 'by_hand'), 0)) AS free)
    WHERE ${so} ON CONFLICT (tenant_id, name, occasion) WHERE occasion IS NOT NULL DO NOTHING`;
}

/** The condition that a wish has become this run, and no other. */
export function isHandRun({ tenantId, name }: Named, { instanceId, occasion }: HandRun): Statement {
  return sql`
    EXISTS (SELECT 1 FROM schedule_runs r
      WHERE r.tenant_id = ${tenantId} AND r.name = ${name} AND r.occasion = ${occasion} AND r.instance_id = ${instanceId})`;
}

/** The run that a wish has become; undefined where it is none yet, or its note is pruned. */
export async function findHandRun(env: EngineEnv, { tenantId, name }: Named, occasion: string): Promise<string | undefined> {
  const [found] = await query<{ instanceId: string }>(
    env.DB,
    sql`SELECT instance_id AS instanceId FROM schedule_runs WHERE tenant_id = ${tenantId} AND name = ${name} AND occasion = ${occasion}`,
  );
  return found?.instanceId;
}
