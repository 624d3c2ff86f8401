import { assertMaySay } from "../access/may-ask.ts";
import { assertReady, type EngineEnv } from "../contract/bindings.ts";
import { codeOf, MillraceError, messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { enqueueIf } from "../intake/accept/enqueue.ts";
import { atomically } from "../store/d1/retry.ts";
import { isTaken } from "../store/instances/keys.ts";
import { insertRun, isStarted } from "../store/schedule-runs.ts";
import { isUnmoved, takeTime } from "../store/schedules.ts";
import type { Catalog } from "../topology/catalog.ts";
import { nextAfter, type Passed, passedSince } from "./cron.ts";
import { type Schedule, selectSchedules } from "./schedule.ts";

/** Schedules of one look. */
const LOOK = 100;
/** Looks of one call, within what a call may ask of the database; the rest is due in the next. */
const LOOKS = 4;
/** Why a time is refused whose key somebody else was given. */
const KEY_TAKEN = "The key of this time belongs to an earlier command with another payload: it was sent by hand under this name.";

/**
 * Starts what is due. A time that has come becomes its command, the note of it and the next time in one write, so that a crash
 * neither loses nor doubles it. Where several times have passed, the last one runs if it is not too late, and the others are noted as
 * missed: nothing is made up for unseen. A schedule that was changed, paused or ended meanwhile is left alone. Answers how many commands
 * were accepted. One object calls it, which does not wait for a call that hangs: two calls at once are harmless, because the write takes
 * the time.
 */
export async function startDue(env: EngineEnv, catalog: Catalog, at = Date.now()): Promise<number> {
  // A time is not spent on a deployment that could start nothing: it is due until that is mended.
  assertReady(env);
  let started = 0;
  for (let looks = 1; looks <= LOOKS; looks++) {
    const due = await selectSchedules(env.DB, dueBy(at));
    const answers = await Promise.all(
      due.map((schedule) =>
        startOne(env, catalog, schedule, at).catch((error) => {
          // It stays due: the next call comes for it, and it holds back none of the others.
          logLine("error", { log: "schedule", name: schedule.name, tenant_id: schedule.tenantId, error: messageOf(error) });
          return false;
        }),
      ),
    );
    started += answers.filter(Boolean).length;
    if (due.length < LOOK) break;
  }
  return started;
}

/**
 * What is due, each tenant's longest first, and the tenants in turn: however much one has, it holds up nobody else's. It is taken from the
 * index before it is numbered, because the numbering alone would go through all schedules there are.
 */
function dueBy(at: number): Statement {
  return sql`
    (tenant_id, name) IN (
      WITH due AS MATERIALIZED (SELECT tenant_id, name, next_at FROM millrace_schedules INDEXED BY millrace_schedules_due
        WHERE next_at <= ${at}),
        turns AS (SELECT tenant_id, name, next_at, row_number() OVER (PARTITION BY tenant_id ORDER BY next_at) AS turn FROM due)
      SELECT tenant_id, name FROM turns ORDER BY turn, next_at LIMIT ${LOOK})`;
}

/**
 * Whether a command was accepted for it. Everything that is written hangs on the schedule being as it was read: who changed or took it
 * meanwhile was first.
 */
async function startOne(env: EngineEnv, catalog: Catalog, schedule: Schedule, at: number): Promise<boolean> {
  const passed = passedSince(schedule, schedule.nextAt ?? at, at);
  const late = at - passed.last > schedule.lateMs;
  const others = noteMissed(schedule, passed, late, at);
  if (late) {
    await atomically(env.DB, [...others, takeTime(schedule, nextAfter(schedule, at))]);
    return false;
  }

  const key = `schedule/${schedule.name}/${new Date(passed.last).toISOString()}`;
  const by = { tenantId: schedule.tenantId, source: `schedule:${schedule.name}` };
  const request = { type: schedule.command, payload: schedule.payload, idempotencyKey: key, causationId: key };
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
  await atomically(env.DB, [
    note("refused", null, beginning(accepted.message, 500), unmoved),
    ...others,
    takeTime(schedule, nextAfter(schedule, at)),
  ]);
  return false;
}

/** Why its command is not for schedules: also where a later deployment has closed its door to everybody, or does not know it. */
function doorClosed(catalog: Catalog, { command }: Schedule): MillraceError | undefined {
  try {
    const { on } = catalog.performer(command);
    if (on.door?.scope === null) assertMaySay({ scopes: [] }, on);
    return undefined;
  } catch (error) {
    if (error instanceof MillraceError) return error;
    throw error;
  }
}

/** Times for which nothing ran: one note for all of them. */
function noteMissed(schedule: Schedule, { last, earlier }: Passed, late: boolean, at: number): Statement[] {
  const missed = late ? { count: (earlier?.count ?? 0) + 1, until: last } : earlier;
  if (missed === null || schedule.nextAt === null) return [];
  const reason = late ? "Nobody was there to start it in time." : "Nobody was there to start it before a later time came.";
  const run = { dueAt: schedule.nextAt, untilAt: missed.until, times: missed.count, instanceId: null, reason };
  return [insertRun(schedule, { ...run, state: "missed" }, at, isUnmoved(schedule))];
}
