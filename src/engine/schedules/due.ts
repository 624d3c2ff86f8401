import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { instanceId } from "../contract/ids.ts";
import { type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { enqueue } from "../intake/enqueue.ts";
import { assertMaySay } from "../operate/may-ask.ts";
import { batch } from "../store/retry.ts";
import type { Catalog } from "../topology/catalog.ts";
import { nextAfter, type Passed, passedSince } from "./cron.ts";
import { deleteRun, insertRun, type Schedule, selectSchedules } from "./schedule.ts";

/** Schedules of one look. */
const LOOK = 100;
/** Looks of one call, within what a call may ask of the database; the rest is due in the next. */
const LOOKS = 4;

/**
 * Starts what is due. A time that has come becomes its command, the note of it and the next time in one write, so that a crash
 * neither loses nor doubles it. Where several times have passed, the last one runs if it is not too late, and the others are noted as
 * missed: nothing is made up for unseen. Answers how many commands were accepted. Called by one object at a time.
 */
export async function startDue(env: EngineEnv, catalog: Catalog, at = Date.now()): Promise<number> {
  let started = 0;
  for (let looks = 1; looks <= LOOKS; looks++) {
    const due = await selectSchedules(env.DB, dueBy(at));
    const answers = await Promise.all(
      due.map((schedule) =>
        startOne(env, catalog, schedule, at).catch((error) => {
          // It stays due: the next call comes for it, and it holds back none of the others.
          console.error(JSON.stringify({ log: "schedule", name: schedule.name, tenant_id: schedule.tenantId, error: messageOf(error) }));
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
      WITH due AS MATERIALIZED (SELECT tenant_id, name, next_at FROM schedules INDEXED BY schedules_due WHERE next_at <= ${at}),
        turns AS (SELECT tenant_id, name, next_at, row_number() OVER (PARTITION BY tenant_id ORDER BY next_at) AS turn FROM due)
      SELECT tenant_id, name FROM turns ORDER BY turn, next_at LIMIT ${LOOK})`;
}

async function startOne(env: EngineEnv, catalog: Catalog, schedule: Schedule, at: number): Promise<boolean> {
  const passed = passedSince(schedule, schedule.nextAt ?? at, at);
  const late = at - passed.last > schedule.lateMs;
  const notes = [...noteMissed(schedule, passed, late, at), moveOn(schedule, at)];
  if (late) {
    await batch(env.DB, notes);
    return false;
  }

  const key = `schedule/${schedule.name}/${new Date(passed.last).toISOString()}`;
  const run = { dueAt: passed.last, untilAt: passed.last, times: 1 };
  const by = { tenantId: schedule.tenantId, source: `schedule:${schedule.name}` };
  const request = { type: schedule.command, payload: schedule.payload, idempotencyKey: key, causationId: key };
  const refuse = (error: MillraceError) =>
    batch(env.DB, [
      // A key that other work has is refused behind the note that was committed with it.
      deleteRun(schedule, { dueAt: run.dueAt, state: "started" }),
      insertRun(schedule, { ...run, state: "refused", instanceId: null, reason: beginning(error.message, 500) }, at),
      ...notes,
    ]);
  const id = performerOf(catalog, schedule, key);
  if (id instanceof MillraceError) {
    await refuse(id);
    return false;
  }
  const started = insertRun(schedule, { ...run, state: "started", instanceId: id, reason: null }, at);
  const [accepted] = await enqueue(env, catalog, by, [request], [started, ...notes]);
  if (!(accepted instanceof MillraceError)) return true;
  await refuse(accepted);
  return false;
}

/** The instance that the command will be, or why there will be none: also where a later deployment has closed its door to everybody. */
function performerOf(catalog: Catalog, { tenantId, command }: Schedule, key: string): string | MillraceError {
  try {
    const { name, on } = catalog.performer(command);
    if (on.door?.scope === null) assertMaySay({ scopes: [] }, on);
    return instanceId(tenantId, name, key);
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
  return [insertRun(schedule, { ...run, state: "missed" }, at)];
}

/** The next time, unless somebody has changed the schedule meanwhile. */
function moveOn(schedule: Schedule, at: number): Statement {
  return sql`
    UPDATE schedules SET next_at = ${nextAfter(schedule, at)}
    WHERE tenant_id = ${schedule.tenantId} AND name = ${schedule.name} AND revision = ${schedule.revision} AND next_at = ${schedule.nextAt}`;
}
