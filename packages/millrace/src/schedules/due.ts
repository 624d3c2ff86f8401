import { assertMaySay } from "../access/may-ask.ts";
import { assertReady, type EngineEnv } from "../contract/bindings.ts";
import { codeOf, MillraceError, messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { among, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import type { Portion } from "../contract/within.ts";
import { enqueueIf } from "../intake/accept/enqueue.ts";
import { atomically } from "../store/d1/retry.ts";
import { isTaken } from "../store/instances/keys.ts";
import { insertRun, isStarted } from "../store/schedule-runs.ts";
import { isUnmoved, takeTime } from "../store/schedules.ts";
import type { Catalog } from "../topology/catalog.ts";
import { countOf, nextAfter, type Passed, passedSince } from "./cron.ts";
import { type StoredSchedule, storedSchedules } from "./schedule.ts";

/** Maximum number of due schedules per query. */
const LOOK = 100;
/** Maximum number of queries in one call, which is within the platform's limit. The next call starts the remaining due schedules. */
const LOOKS = 4;
/** The reason when a due time's key belongs to another command. */
const KEY_TAKEN = "The key of this due time belongs to an earlier command with another payload, which was sent manually.";

/**
 * Starts due schedules. One atomic write stores the command, the record of the due time and the next due time. Therefore a crash neither
 * loses nor duplicates a run. When several due times of a schedule have passed, only the latest due time starts a run, unless its delay
 * exceeds the maximum. All earlier due times that have passed are recorded as missed. A schedule that was changed, paused or deleted after
 * this call read the schedule is skipped. Returns the number of accepted commands, and whether further schedules are due. Concurrent calls
 * are harmless, because the write claims the due time.
 */
export async function startDue(env: EngineEnv, catalog: Catalog, at = Date.now()): Promise<Portion> {
  // If the deployment cannot start commands, the due times must remain due until the deployment is fixed.
  assertReady(env);
  let did = 0;
  const failed: Failed = { commands: new Set(catalog.elsewhere.commands), schedules: [] };
  for (let looks = 1; ; looks++) {
    const due = await storedSchedules(env.DB, dueBy(at, failed));
    const answers = await Promise.all(
      due.map((schedule) =>
        startOne(env, catalog, schedule, at).catch((error) => {
          // A schedule that failed remains due for the next call, and does not delay other schedules.
          failed.schedules.push([schedule.tenantId, schedule.name]);
          if (codeOf(error) === "config_invalid") failed.commands.add(schedule.command);
          logLine("error", { log: "schedule", name: schedule.name, tenant_id: schedule.tenantId, error: messageOf(error) });
          return false;
        }),
      ),
    );
    did += answers.filter(Boolean).length;
    if (due.length < LOOK) return { did, more: false };
    if (looks === LOOKS) return { did, more: failed.schedules.length < LOOK * LOOKS };
  }
}

/** The schedules that failed in a call, and the commands of other Workers or without a binding. The call does not read them again. */
interface Failed {
  readonly commands: Set<string>;
  readonly schedules: [tenantId: string, name: string][];
}

/**
 * Selects due schedules of all tenants in turn, so that no tenant delays another tenant. Each tenant's schedule with the earliest due time
 * comes first. The rows are materialized from the index before they are numbered, because the numbering would otherwise scan all schedules.
 * The Worker that performs a command starts its schedules.
 */
function dueBy(at: number, { commands, schedules }: Failed): Statement {
  return sql`
    (tenant_id, name) IN (
      WITH due AS MATERIALIZED (SELECT tenant_id, name, next_at FROM millrace_schedules INDEXED BY millrace_schedules_due
        WHERE next_at <= ${at} AND command NOT IN ${among([...commands])}
          AND ${schedules.length === 0 ? sql`true` : isNoneOf(schedules)}),
        turns AS (SELECT tenant_id, name, next_at, row_number() OVER (PARTITION BY tenant_id ORDER BY next_at) AS turn FROM due)
      SELECT tenant_id, name FROM turns ORDER BY turn, next_at LIMIT ${LOOK})`;
}

function isNoneOf(schedules: Failed["schedules"]): Statement {
  return sql`(tenant_id, name) NOT IN (SELECT value->>0, value->>1 FROM json_each(${JSON.stringify(schedules)}))`;
}

/**
 * Starts a due schedule, and returns whether a command was accepted. Every write requires that the schedule has not changed since it was
 * read.
 */
async function startOne(env: EngineEnv, catalog: Catalog, schedule: StoredSchedule, at: number): Promise<boolean> {
  const passed = passedSince(schedule, schedule.nextAt ?? at, at);
  const late = at - passed.last > schedule.lateMs;
  const others = noteMissed(schedule, passed, late, at);
  if (late) {
    await atomically(env.DB, [...others, takeTime(schedule, nextAfter(schedule, at))]);
    return false;
  }

  const key = `schedule/${schedule.name}/${new Date(passed.last).toISOString()}`;
  const by = { tenantId: schedule.tenantId, source: `schedule:${schedule.name}` };
  const { command: type, schemaVersion, payload } = schedule;
  const request = { type, schemaVersion, payload, idempotencyKey: key, causationId: key };
  const note = (state: "started" | "refused", instanceId: string | null, reason: string | null, so: Statement) =>
    insertRun(schedule, { dueAt: passed.last, untilAt: passed.last, times: 1, state, instanceId, reason }, at, so);
  const unmoved = isUnmoved(schedule);
  const started = isStarted(schedule, passed.last);

  const closed = doorClosed(catalog, schedule);
  const accepted =
    closed ??
    (await enqueueIf(env, catalog, by, request, (command) => ({
      also: [
        note("started", command.id, null, sql`${unmoved} AND NOT ${isTaken(command)}`),
        note("refused", null, KEY_TAKEN, sql`${unmoved} AND NOT ${started}`),
        ...others,
        takeTime(schedule, nextAfter(schedule, at)),
      ],
      provided: started,
    })));
  if (accepted === undefined || codeOf(accepted) === "idempotency_key_reused") return false;
  if (!(accepted instanceof MillraceError)) return !accepted.replayed;
  // The schedule is valid. Its time remains due until the deployment is corrected or the service is available.
  if (["config_invalid", "unavailable"].includes(accepted.code)) throw accepted;
  await atomically(env.DB, [
    note("refused", null, beginning(accepted.message, 500), unmoved),
    ...others,
    takeTime(schedule, nextAfter(schedule, at)),
  ]);
  return false;
}

/** The error when a later deployment has closed the command to schedules, or does not declare it. */
function doorClosed(catalog: Catalog, { command }: StoredSchedule): MillraceError | undefined {
  try {
    const { on } = catalog.performer(command);
    if (on.access?.scope === null) assertMaySay({ scopes: [] }, on);
    return undefined;
  } catch (error) {
    if (error instanceof MillraceError) return error;
    throw error;
  }
}

/** Writes one record for all due times that start no run. */
function noteMissed(schedule: StoredSchedule, passed: Passed, late: boolean, at: number): Statement[] {
  const missed = late ? { count: countOf(passed), until: passed.last } : passed.earlier;
  if (missed === null || schedule.nextAt === null) return [];
  const reason = late ? "No run started within late_seconds." : "No run started before the next due time.";
  const run = { dueAt: schedule.nextAt, untilAt: missed.until, times: missed.count, instanceId: null, reason };
  return [insertRun(schedule, { ...run, state: "missed" }, at, isUnmoved(schedule))];
}
