import { type Asker, assertMayAsk } from "../access/may-ask.ts";
import { address } from "../contract/address.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { codeOf, MillraceError } from "../contract/errors.ts";
import { digest } from "../contract/ids.ts";
import { byteLength } from "../contract/limits.ts";
import { assertKnownFields, type CommandDefinition, type Draft, decodePayload } from "../contract/message.ts";
import { saysRedacted } from "../contract/redact.ts";
import { type Statement, sql } from "../contract/sql.ts";
import { newTrace, type SaidTrace } from "../contract/trace.ts";
import { type Accepted, enqueueIf } from "../intake/accept/enqueue.ts";
import { act } from "../operate/act.ts";
import { payloadAsStored } from "../operate/letters/settle.ts";
import { type Action, audit, type Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { isKnown } from "../store/instances/keys.ts";
import { insertHandRun, insertRun, isHandRun } from "../store/schedule-runs.ts";
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
import { checkTiming, countOf, isTiming, nextAfter, passedSince } from "./cron.ts";
import { findHandRun, getSchedule, type Schedule, type StoredSchedule, storedSchedule, storedSchedules } from "./schedule.ts";

/** The settings of a schedule to create or change. */
export type ScheduleRequest = Pick<StoredSchedule, "cron" | "timeZone" | "command" | "payload" | "lateMs"> & {
  /** The version of the payload's schema. Default: the command's present version. */
  schemaVersion?: number | undefined;
  /**
   * The revision that the change is based on; 0 for a new schedule. The change is refused if the schedule has another revision. Default:
   * the change overwrites any revision.
   */
  revision?: number | undefined;
};

type Versioned = ScheduleRequest & Pick<StoredSchedule, "schemaVersion">;

/** Maximum number of schedules per tenant. */
const MAX_SCHEDULES = 1000;
/**
 * Maximum number of attempts of a change. An attempt fails if another caller or the keeper has changed the row since the attempt read it.
 */
const TRIES = 5;
/** Maximum size of a schedule's payload in bytes, because a hundred payloads are read at once. */
const MAX_PAYLOAD_BYTES = 32 * 1024;

/**
 * Creates a schedule, or replaces its settings. A paused schedule stays paused. The next due time is the first due time after the present.
 *
 * Errors: `invalid_payload`, `unknown_message_type` and `forbidden` for a command that cannot run or that the token may not send.
 * `payload_too_large` if the payload is too large. `invalid_transition` if the tenant has the maximum number of schedules, or if the
 * schedule has another revision than `revision`.
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
  const { schemaVersion = definition.version } = request;
  const payload = decodePayload(definition, schemaVersion, sent);
  assertKnownFields(definition, schemaVersion, sent);
  assertSmall(payload);
  await assertSendable(env, by, definition.from(payload), name);
  return tried(async () => {
    const [before] = await storedSchedules(env.DB, sql`tenant_id = ${by.tenantId} AND name = ${name}`);
    assertRevision(name, request.revision, before);
    if (await writeOver(env, by, name, { ...request, payload, schemaVersion: definition.version }, reason, before))
      return getSchedule(env, by, name);
    if (before === undefined) await assertRoom(env, by);
    return undefined;
  });
}

/** The requested payload. Each `[redacted]`, which a response showed instead of a value, is replaced by the stored value. */
async function unredacted(env: EngineEnv, catalog: Catalog, by: Operator, name: string, request: ScheduleRequest): Promise<unknown> {
  const { command, payload } = request;
  if (!saysRedacted(payload)) return payload;
  const [before] = await storedSchedules(env.DB, sql`tenant_id = ${by.tenantId} AND name = ${name} AND command = ${command}`);
  return payloadAsStored(catalog, { message_type: command, schema_version: before?.schemaVersion }, payload, before?.payload);
}

/** Refuses a change that is based on an older revision, so that it does not overwrite another caller's change. */
function assertRevision(name: string, asked: number | undefined, before: StoredSchedule | undefined): void {
  const revision = before?.revision ?? 0;
  if (asked === undefined || asked === revision) return;
  const now = before ? `is at revision ${revision}, by ${before.changedBy}` : "was deleted";
  const said =
    asked === 0 ? `The schedule "${name}" exists already` : `The schedule "${name}" ${now}, and yours is based on revision ${asked}`;
  throw new MillraceError("invalid_transition", `${said}: read it (GET /v1/schedules/${name}), then send your change again.`);
}

/** Retries a change that failed because another caller or the keeper changed the schedule. Each attempt reads the schedule again. */
async function tried<T>(change: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 1; tries <= TRIES; tries++) {
    const done = await change();
    if (done !== undefined) return done;
  }
  throw new MillraceError("invalid_transition", "This schedule is being changed by other requests: read it, then send your change again.");
}

/**
 * Replaces the settings in the row that was read. Returns false if the row has changed, or the tenant has the maximum number of schedules.
 */
async function writeOver(
  env: EngineEnv,
  by: Operator,
  name: string,
  request: Versioned,
  reason: string,
  before: StoredSchedule | undefined,
): Promise<boolean> {
  const { cron, timeZone, command } = request;
  const at = Date.now();
  const next = nextAfter(request, Math.max(at, before?.takenUntil ?? 0));
  const after = settingOf({ ...request, state: before?.state ?? "active" });
  const detail = { cron, time_zone: timeZone, command };
  const action = { ...scheduleAction("schedule", name, reason), detail, before: before && settingOf(before), after };
  const passed = before ? notePassed(before, `${by.actor} changed the schedule before the run was started.`, at) : [];
  const change = [...passed, writeSchedule(asRow(by, name, request, at, next), before, MAX_SCHEDULES)];
  return (await act(env, by, action, { change, triesAgain: true })).isApplied;
}

/**
 * Throws the error with which every run of the command would be refused. The function stores no payload, because a small payload is part of
 * the message.
 */
async function assertSendable(env: EngineEnv, { tenantId }: Operator, draft: Draft, name: string): Promise<void> {
  const key = `schedule/${name}/${new Date(0).toISOString()}`;
  const by = { tenantId, source: `schedule:${name}`, correlationId: key, causationId: key, traceparent: newTrace() };
  await address(env.PAYLOADS, draft, { ...by, idempotencyKey: key, owner: key });
}

function assertSmall(payload: unknown): void {
  if (byteLength(JSON.stringify(payload)) <= MAX_PAYLOAD_BYTES) return;
  throw new MillraceError(
    "payload_too_large",
    `The payload of a schedule has at most ${MAX_PAYLOAD_BYTES} bytes. Store a larger payload in your own storage, and schedule a reference to it.`,
  );
}

/** Throws if the tenant has the maximum number of schedules. The later write also enforces the maximum. */
async function assertRoom(env: EngineEnv, by: Operator): Promise<void> {
  const [found] = await query<{ room: number }>(env.DB, sql`SELECT ${hasRoom(by.tenantId, MAX_SCHEDULES)} AS room`);
  if (found?.room === 1) return;
  throw new MillraceError("invalid_transition", `A tenant has at most ${MAX_SCHEDULES} schedules: delete one first.`);
}

/**
 * The statement that creates a schedule within another write. The schedule does not count against the tenant's maximum. An existing
 * schedule with this name remains unchanged.
 */
export function ensureSchedule(
  by: Operator,
  name: string,
  {
    command: { type, version },
    ...request
  }: Omit<ScheduleRequest, "command" | "revision" | "schemaVersion"> & {
    /** The result of `defineCommand`. Its present version describes the payload. */
    command: Pick<CommandDefinition, "type" | "version">;
  },
): Statement {
  const at = Date.now();
  return ensureScheduled(asRow(by, name, { ...request, command: type, schemaVersion: version }, at, nextAfter(request, at)));
}

function asRow({ tenantId, actor }: Operator, name: string, request: Versioned, at: number, nextAt: number | null): NewSchedule {
  return { tenantId, name, ...request, nextAt, changedAt: at, changedBy: actor };
}

/** Pauses a schedule. Errors: `schedule_not_found`, `invalid_transition` for a paused schedule. */
export function pauseSchedule(env: EngineEnv, by: Operator, name: string, reason: string): Promise<Schedule> {
  return moveState(env, by, { name, to: "paused", reason }, (before, at) => ({
    passed: notePassed(before, `${by.actor} paused the schedule before the run was started.`, at),
    nextAt: null,
  }));
}

/**
 * Resumes a schedule from now. Due times during the pause are recorded, but no run starts for them. Errors: `schedule_not_found`,
 * `invalid_transition` for an active schedule, `forbidden` for a command that the token may not send.
 */
export function resumeSchedule(env: EngineEnv, catalog: Catalog, by: Asker, name: string, reason: string): Promise<Schedule> {
  return moveState(env, by, { name, to: "active", reason }, (before, at) => {
    assertMayAsk(catalog, by, before.command);
    checkTiming(before);
    return {
      passed: notePassed(before, `${by.actor} resumed it.`, at),
      nextAt: nextAfter(before, Math.max(at, before.takenUntil)),
    };
  });
}

/** Deletes a schedule. The schedule's runs can be read until they are pruned. Errors: `schedule_not_found`. */
export async function deleteSchedule(env: EngineEnv, by: Operator, name: string, reason: string): Promise<void> {
  await tried(async () => {
    const before = await storedSchedule(env, by, name);
    const passed = notePassed(before, `${by.actor} deleted the schedule before the run was started.`, Date.now());
    const detail = { revision: before.revision };
    const action = { ...scheduleAction("unschedule", name, reason), detail, before: settingOf(before) };
    const { isApplied } = await act(env, by, action, { change: [...passed, removeSchedule(before)], triesAgain: true });
    return isApplied || undefined;
  });
}

/**
 * Pauses or resumes a schedule. If the schedule already has the requested state, no due time is recorded, because the keeper still
 * processes the due times.
 */
function moveState(
  env: EngineEnv,
  by: Operator,
  { name, to, reason }: { name: string; to: ScheduleState; reason: string },
  planned: (before: StoredSchedule, at: number) => { passed: Statement[]; nextAt: number | null },
): Promise<Schedule> {
  return tried(async () => {
    const before = await storedSchedule(env, by, name);
    const at = Date.now();
    const { passed, nextAt } = planned(before, at);
    const move = moveSchedule(before, { state: to, nextAt, at, by: by.actor });
    const change = before.state === to ? move : [...passed, move];
    const changed = { before: { state: before.state }, after: { state: to } };
    const action = { ...scheduleAction(to === "paused" ? "pause" : "resume", name, reason), ...changed };
    if ((await act(env, by, action, { change, triesAgain: before.state !== to })).isApplied) return getSchedule(env, by, name);
    if (before.state !== to) return undefined;
    throw new MillraceError("invalid_transition", `The schedule is ${to} already.`, { from: to, to, audited: true });
  });
}

/**
 * Records due times that a change of the schedule drops. They are recorded as missed, with the reason, or as paused if the schedule was
 * paused. Of a pattern that this runtime cannot compute, only the stored due time is recorded.
 */
function notePassed(schedule: StoredSchedule, reason: string, at: number): Statement[] {
  const { state, nextAt, changedAt, takenUntil } = schedule;
  const isKnown = isTiming(schedule);
  const first = state === "active" ? nextAt : isKnown ? nextAfter(schedule, Math.max(changedAt, takenUntil)) : null;
  if (first === null || first > at) return [];
  const passed = isKnown ? passedSince(schedule, first, at) : { last: first, earlier: null };
  const run = { dueAt: first, untilAt: passed.last, times: countOf(passed), instanceId: null };
  const said =
    state === "paused"
      ? ({ state: "paused", reason: `${schedule.changedBy} had paused the schedule.` } as const)
      : ({ state: "missed", reason } as const);
  return [insertRun(schedule, { ...run, ...said }, at, isUnmoved(schedule))];
}

/** The settings of a schedule for the audit, without the payload. */
function settingOf({ cron, timeZone, command, lateMs, state }: Omit<ScheduleRequest, "payload"> & Pick<StoredSchedule, "state">) {
  return { cron, time_zone: timeZone, command, late_seconds: lateMs / 1000, state };
}

function scheduleAction(verb: Action["verb"], target: string, reason: string): Action {
  return { id: crypto.randomUUID(), verb, target, instanceId: null, reason };
}

/** The instance of a schedule's run, and whether the instance existed before the request. */
type Run = Pick<Accepted, "instanceId" | "replayed" | "status">;

/**
 * Runs a schedule's command now, even if the schedule is paused. The schedule's due times remain unchanged. `occasion` identifies the run.
 * A repeated request returns the same run while the record of the run exists, even if the schedule was changed or deleted after the run.
 * Errors: `schedule_not_found`, `forbidden` for a command that the token may not send, and the errors of the command.
 */
export async function runSchedule(
  env: EngineEnv,
  catalog: Catalog,
  by: Asker,
  name: string,
  { reason, occasion: wish, ...trace }: { reason: string; occasion: string } & SaidTrace,
): Promise<Run> {
  const occasion = digest(wish);
  const named = { tenantId: by.tenantId, name };
  const before = await findHandRun(env, named, occasion);
  if (before !== undefined) return { ...before, replayed: true };

  const schedule = await storedSchedule(env, by, name);
  assertMayAsk(catalog, by, schedule.command);
  const key = `schedule/${name}/by hand/${occasion}`;
  const { command: type, schemaVersion, payload } = schedule;
  const request = { type, schemaVersion, payload, idempotencyKey: key, causationId: key, ...trace };
  const action = { id: crypto.randomUUID(), verb: "run", target: name, reason } as const;
  const accepted = await enqueueIf(env, catalog, { tenantId: by.tenantId, source: `schedule:${name}` }, request, (command) => {
    const run = { instanceId: command.id, reason, occasion };
    return {
      also: [insertHandRun(named, run, Date.now(), sql`NOT ${isKnown(command)}`), audit(by, { ...action, instanceId: command.id }, false)],
      provided: isHandRun(named, run),
    };
  });
  if (accepted !== undefined && codeOf(accepted) !== "idempotency_key_reused") {
    if (accepted instanceof MillraceError) throw accepted;
    return accepted;
  }
  // A concurrent request with the same occasion was first, and the schedule was changed between the two requests.
  const other = await findHandRun(env, named, occasion);
  if (other !== undefined) return { ...other, replayed: true };
  throw keyKnown(name);
}

/** The error for a manual run whose record was pruned, or whose key belongs to another command. */
function keyKnown(name: string): MillraceError {
  return new MillraceError(
    "idempotency_key_reused",
    `The Idempotency-Key belongs to an earlier run of the schedule "${name}", with another payload: use a new key for a new run.`,
    { issues: [{ path: "idempotency_key", message: "belongs to a run with another payload" }] },
  );
}
