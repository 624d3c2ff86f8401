import { type Asker, assertMayAsk } from "../access/may-ask.ts";
import { address } from "../contract/address.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { byteLength } from "../contract/limits.ts";
import { assertKnownFields, type Draft, decodePayload } from "../contract/message.ts";
import { saysRedacted } from "../contract/redact.ts";
import { type Statement, sql } from "../contract/sql.ts";
import { newTrace } from "../contract/trace.ts";
import { act } from "../operate/act.ts";
import { payloadAsStored } from "../operate/as-stored.ts";
import type { Action, Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { insertRun } from "../store/schedule-runs.ts";
import {
  ensureScheduled,
  hasRoom,
  isUnmoved,
  moveSchedule,
  type NewSchedule,
  removeSchedule,
  type ScheduleState,
  writeSchedule,
} from "../store/schedules.ts";
import type { Catalog } from "../topology/catalog.ts";
import { checkTiming, nextAfter, passedSince } from "./cron.ts";
import { getSchedule, type Schedule, selectSchedules } from "./schedule.ts";

/** A schedule as somebody wants it. */
export type ScheduleRequest = Pick<Schedule, "cron" | "timeZone" | "command" | "payload" | "lateMs"> & {
  /** The revision that it was made of, 0 for a new one: written only over that. Default: over whatever is there. */
  revision?: number | undefined;
};

/** Schedules of one tenant: what people make, with room to spare. */
const MAX_SCHEDULES = 1000;
/** Writes of one change: each finds that somebody was faster, or the keeper. */
const TRIES = 5;
/** Largest payload of a schedule: a hundred of them are read at once. */
const MAX_PAYLOAD_BYTES = 32 * 1024;

/**
 * Makes a schedule, or changes it as a whole; a paused one stays paused. Its next time is the first from now on. Errors: `invalid_payload`,
 * `unknown_message_type`, `forbidden`: what could not run, or not by this token, is not scheduled; `payload_too_large`;
 * `invalid_transition` for one more than a tenant may have, and for one that somebody has changed since its `revision`.
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
  const sent = await unredacted(env, catalog, by, name, request);
  const payload = decodePayload(definition, definition.version, sent);
  assertKnownFields(definition, definition.version, sent);
  assertSmall(payload);
  await assertSendable(env, by, definition.from(payload), name);
  return tried(async () => {
    const [before] = await selectSchedules(env.DB, sql`tenant_id = ${by.tenantId} AND name = ${name}`);
    assertRevision(name, request.revision, before);
    if (await writeOver(env, by, name, { ...request, payload }, reason, before)) return getSchedule(env, by, name);
    if (before === undefined) await assertRoom(env, by);
    return undefined;
  });
}

/** The payload as it is meant: where it says `[redacted]`, as the schedule is shown, what is stored stays. */
async function unredacted(env: EngineEnv, catalog: Catalog, by: Operator, name: string, request: ScheduleRequest): Promise<unknown> {
  const { command, payload } = request;
  if (!saysRedacted(payload)) return payload;
  const [before] = await selectSchedules(env.DB, sql`tenant_id = ${by.tenantId} AND name = ${name} AND command = ${command}`);
  return payloadAsStored(catalog, command, payload, before?.payload);
}

/** What somebody else has made of it meanwhile is not undone unseen. */
function assertRevision(name: string, asked: number | undefined, before: Schedule | undefined): void {
  const revision = before?.revision ?? 0;
  if (asked === undefined || asked === revision) return;
  const now = before ? `is at revision ${revision}, by ${before.changedBy}` : "is not there any more";
  const said =
    asked === 0 ? `There is a schedule "${name}" already` : `The schedule "${name}" ${now}, and yours was made of revision ${asked}`;
  throw new MillraceError(
    "invalid_transition",
    `${said}: read it (GET /v1/schedules/${name}), and send yours again if it is still wanted.`,
  );
}

/** A change of what is there: where somebody was faster, or the keeper, it is read again, and changed as it is by then. */
async function tried<T>(change: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 1; tries <= TRIES; tries++) {
    const done = await change();
    if (done !== undefined) return done;
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
  const after = settingOf({ ...request, state: before?.state ?? "active" });
  const detail = { cron, time_zone: timeZone, command };
  const action = { ...scheduleAction("schedule", name, reason), detail, before: before && settingOf(before), after };
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
export function pauseSchedule(env: EngineEnv, by: Operator, name: string, reason: string): Promise<Schedule> {
  return moveState(env, by, { name, to: "paused", reason }, (before, at) => ({
    passed: notePassed(before, `${by.actor} paused it before it was started.`, at),
    nextAt: null,
  }));
}

/**
 * Due again from now on. The times that came meanwhile are noted, not made up for. Errors: `schedule_not_found`, `invalid_transition` when
 * it is active already; `forbidden` for a command that the token may not ask for, because its runs begin by this word.
 */
export function resumeSchedule(env: EngineEnv, catalog: Catalog, by: Asker, name: string, reason: string): Promise<Schedule> {
  return moveState(env, by, { name, to: "active", reason }, (before, at) => {
    assertMayAsk(catalog, by, before.command);
    return {
      passed: notePassed(before, `${by.actor} resumed it.`, at),
      nextAt: nextAfter(before, Math.max(at, takenUntil(before))),
    };
  });
}

/** Ends a schedule. What became of its times can be read until it is pruned. Errors: `schedule_not_found`. */
export async function deleteSchedule(env: EngineEnv, by: Operator, name: string, reason: string): Promise<void> {
  await tried(async () => {
    const before = await getSchedule(env, by, name);
    const passed = notePassed(before, `${by.actor} ended it before it was started.`, Date.now());
    const action = { ...scheduleAction("unschedule", name, reason), before: settingOf(before) };
    const { isApplied } = await act(env, by, action, { change: [...passed, removeSchedule(before)] });
    return isApplied || undefined;
  });
}

/** Pauses a schedule, or resumes it. Of one that is there already nothing is noted: its times are still to be started, or to be told of. */
function moveState(
  env: EngineEnv,
  by: Operator,
  { name, to, reason }: { name: string; to: ScheduleState; reason: string },
  planned: (before: Schedule, at: number) => { passed: Statement[]; nextAt: number | null },
): Promise<Schedule> {
  return tried(async () => {
    const before = await getSchedule(env, by, name);
    const at = Date.now();
    const { passed, nextAt } = planned(before, at);
    const move = moveSchedule(before, { state: to, nextAt, at, by: by.actor });
    const change = before.state === to ? move : [...passed, move];
    const changed = { before: { state: before.state }, after: { state: to } };
    const action = { ...scheduleAction(to === "paused" ? "pause" : "resume", name, reason), ...changed };
    if ((await act(env, by, action, { change })).isApplied) return getSchedule(env, by, name);
    if (before.state !== to) return undefined;
    throw new MillraceError("invalid_transition", `The schedule is ${to} already.`, { from: to, to, audited: true });
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

/** What the audit says of a schedule: not its payload. */
function settingOf({ cron, timeZone, command, lateMs, state }: Omit<ScheduleRequest, "payload"> & Pick<Schedule, "state">) {
  return { cron, time_zone: timeZone, command, late_seconds: lateMs / 1000, state };
}

function scheduleAction(verb: Action["verb"], target: string, reason: string): Action {
  return { id: crypto.randomUUID(), verb, target, instanceId: null, reason };
}
