import { type Asker, assertMayAsk } from "../access/may-ask.ts";
import { address } from "../contract/address.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { byteLength } from "../contract/limits.ts";
import { assertKnownFields, type Draft, decodePayload } from "../contract/message.ts";
import { type Statement, sql } from "../contract/sql.ts";
import { newTrace } from "../contract/trace.ts";
import { act } from "../operate/act.ts";
import { type Action, audit, type Operator } from "../store/actions.ts";
import { atomically, query } from "../store/retry.ts";
import { insertRun } from "../store/schedule-runs.ts";
import { ensureScheduled, hasRoom, isUnmoved, moveSchedule, type NewSchedule, removeSchedule, writeSchedule } from "../store/schedules.ts";
import type { Catalog } from "../topology/catalog.ts";
import { checkTiming, nextAfter, passedSince } from "./cron.ts";
import { getSchedule, type Schedule, selectSchedules } from "./schedule.ts";

/** A schedule as somebody wants it. */
export type ScheduleRequest = Pick<Schedule, "cron" | "timeZone" | "command" | "payload" | "lateMs">;

/** Schedules of one tenant: what people make, with room to spare. */
const MAX_SCHEDULES = 1000;
/** Writes of one change: each finds that somebody was faster, or the keeper. */
const TRIES = 5;
/** Largest payload of a schedule: a hundred of them are read at once. */
const MAX_PAYLOAD_BYTES = 32 * 1024;

/**
 * Makes a schedule, or changes it as a whole; a paused one stays paused. Its next time is the first from now on. Errors: `invalid_payload`,
 * `unknown_message_type`, `forbidden`: what could not run, or not by this token, is not scheduled; `payload_too_large`;
 * `invalid_transition` for one more than a tenant may have.
 */
export async function putSchedule(
  env: EngineEnv,
  catalog: Catalog,
  by: Asker,
  name: string,
  request: ScheduleRequest,
  reason: string,
): Promise<Schedule> {
  assertMayAsk(catalog, by, request.command);
  checkTiming(request);
  const { on: definition } = catalog.performer(request.command);
  const payload = decodePayload(definition, definition.version, request.payload);
  assertKnownFields(definition, definition.version, request.payload);
  assertSmall(payload);
  await assertSendable(env, by, definition.from(payload), name);
  for (let tries = 1; tries <= TRIES; tries++) {
    const [before] = await selectSchedules(env.DB, sql`tenant_id = ${by.tenantId} AND name = ${name}`);
    if (await writeOver(env, by, name, { ...request, payload }, reason, before)) return getSchedule(env, by, name);
    if (before === undefined) await assertRoom(env, by);
  }
  throw new MillraceError(
    "invalid_transition",
    "Others change this schedule at the same time: read it, and send yours again if it is still wanted.",
  );
}

/** Writes it over what was read. False where that is no longer so, or a new one has no room. */
async function writeOver(
  env: EngineEnv,
  by: Operator,
  name: string,
  request: ScheduleRequest,
  reason: string,
  before: Schedule | undefined,
): Promise<boolean> {
  const { cron, timeZone, command } = request;
  const at = Date.now();
  const next = nextAfter(request, Math.max(at, takenUntil(before)));
  const action = { ...scheduleAction("schedule", name, reason), detail: { cron, time_zone: timeZone, command } };
  const passed = before ? notePassed(before, `${by.actor} changed it before it was started.`, at) : [];
  const change = [...passed, writeSchedule(asRow(by, name, request, at, next), before, MAX_SCHEDULES)];
  return (await act(env, by, action, { change })).isApplied;
}

/** The last time of which something is noted: by another clock than this one it may still be to come, and it is not due again. */
function takenUntil(schedule: Schedule | undefined): number {
  return schedule?.lastRun?.untilAt ?? 0;
}

/** Refuses what its runs would be refused for. Small payloads travel within their messages: nothing is stored. */
async function assertSendable(env: EngineEnv, { tenantId }: Operator, draft: Draft, name: string): Promise<void> {
  const key = `schedule/${name}/${new Date(0).toISOString()}`;
  const by = { tenantId, source: `schedule:${name}`, correlationId: key, causationId: key, traceparent: newTrace() };
  await address(env.PAYLOADS, draft, { ...by, idempotencyKey: key, owner: key });
}

function assertSmall(payload: unknown): void {
  if (byteLength(JSON.stringify(payload)) <= MAX_PAYLOAD_BYTES) return;
  throw new MillraceError(
    "payload_too_large",
    `The payload of a schedule has at most ${MAX_PAYLOAD_BYTES} bytes. Store it yourself and schedule a reference to it.`,
  );
}

/** Says why a new one was not written, if that is why: the bound itself stands in the write. */
async function assertRoom(env: EngineEnv, by: Operator): Promise<void> {
  const [found] = await query<{ room: number }>(env.DB, sql`SELECT ${hasRoom(by.tenantId, MAX_SCHEDULES)} AS room`);
  if (found?.room === 1) return;
  throw new MillraceError("invalid_transition", `A tenant has at most ${MAX_SCHEDULES} schedules: end one that nobody needs first.`);
}

/**
 * A schedule that comes with something else, in the same write, also beyond what people may make. One of this name stays as they have it.
 */
export function ensureSchedule(by: Operator, name: string, request: ScheduleRequest): Statement {
  const at = Date.now();
  return ensureScheduled(asRow(by, name, request, at, nextAfter(request, at)));
}

function asRow({ tenantId, actor }: Operator, name: string, request: ScheduleRequest, at: number, nextAt: number | null): NewSchedule {
  return { tenantId, name, ...request, nextAt, changedAt: at, changedBy: actor };
}

/** Nothing is due until it is resumed. Errors: `schedule_not_found`, `invalid_transition` when it is paused already. */
export async function pauseSchedule(env: EngineEnv, by: Operator, name: string, reason: string): Promise<Schedule> {
  const before = await getSchedule(env, by, name);
  const at = Date.now();
  await moveState(env, by, before, scheduleAction("pause", name, reason), [
    ...notePassed(before, `${by.actor} paused it before it was started.`, at),
    moveSchedule(before, { state: "paused", nextAt: null, at, by: by.actor }),
  ]);
  return getSchedule(env, by, name);
}

/**
 * Due again from now on. The times that came meanwhile are noted, not made up for. Errors: `schedule_not_found`, `invalid_transition`;
 * `forbidden` for a command that the token may not ask for, because its runs begin by this word.
 */
export async function resumeSchedule(env: EngineEnv, catalog: Catalog, by: Asker, name: string, reason: string): Promise<Schedule> {
  const before = await getSchedule(env, by, name);
  assertMayAsk(catalog, by, before.command);
  const at = Date.now();
  await moveState(env, by, before, scheduleAction("resume", name, reason), [
    ...notePassed(before, `${by.actor} resumed it.`, at),
    moveSchedule(before, { state: "active", nextAt: nextAfter(before, Math.max(at, takenUntil(before))), at, by: by.actor }),
  ]);
  return getSchedule(env, by, name);
}

/** Ends a schedule. What became of its times can be read until it is pruned. Errors: `schedule_not_found`. */
export async function deleteSchedule(env: EngineEnv, by: Operator, name: string, reason: string): Promise<void> {
  const before = await getSchedule(env, by, name);
  await atomically(env.DB, [
    ...notePassed(before, `${by.actor} ended it before it was started.`, Date.now()),
    removeSchedule(by.tenantId, name),
    audit(by, scheduleAction("unschedule", name, reason), false),
  ]);
}

async function moveState(env: EngineEnv, by: Operator, before: Schedule, done: Action, change: Statement[]): Promise<void> {
  if ((await act(env, by, done, { change })).isApplied) return;
  const to = done.verb === "pause" ? "paused" : "active";
  throw new MillraceError("invalid_transition", `The schedule is ${before.state}, or somebody else has just changed it: read it again.`, {
    from: before.state,
    to,
  });
}

/**
 * Times that have come and that no command was accepted for: what becomes of the schedule now looks only ahead. Those of an active one are
 * missed, and this is why; those of a paused one were not to run.
 */
function notePassed(schedule: Schedule, reason: string, at: number): Statement[] {
  const paused = schedule.state === "paused";
  const first = paused ? nextAfter(schedule, schedule.changedAt) : schedule.nextAt;
  if (first === null || first > at) return [];
  const { last, earlier } = passedSince(schedule, first, at);
  const run = { dueAt: first, untilAt: last, times: (earlier?.count ?? 0) + 1, instanceId: null };
  const said = paused
    ? ({ state: "paused", reason: `${schedule.changedBy} had paused it.` } as const)
    : ({ state: "missed", reason } as const);
  return [insertRun(schedule, { ...run, ...said }, at, isUnmoved(schedule))];
}

function scheduleAction(verb: Action["verb"], target: string, reason: string): Action {
  return { id: crypto.randomUUID(), verb, target, instanceId: null, reason };
}
