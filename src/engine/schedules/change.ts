import { address } from "../contract/address.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { byteLength } from "../contract/limits.ts";
import { assertKnownFields, type Draft, decodePayload } from "../contract/message.ts";
import { type Statement, sql } from "../contract/sql.ts";
import { newTrace } from "../contract/trace.ts";
import { type Action, applied, audit, type Operator } from "../operate/audit.ts";
import { type Asker, assertMayAsk } from "../operate/may-ask.ts";
import { batch, query } from "../store/retry.ts";
import type { Catalog } from "../topology/catalog.ts";
import { checkTiming, nextAfter, passedSince } from "./cron.ts";
import { getSchedule, insertRun, type Schedule, selectSchedules } from "./schedule.ts";

/** A schedule as somebody wants it. */
export type ScheduleRequest = Pick<Schedule, "cron" | "timeZone" | "command" | "payload" | "lateMs">;

/** Schedules of one tenant: what people make, with room to spare. */
const MAX_SCHEDULES = 1000;
/** Largest payload of a schedule: a hundred of them are read at once. */
const MAX_PAYLOAD_BYTES = 32 * 1024;

/**
 * Makes a schedule, or changes it as a whole; a paused one stays paused. Its next time is the first from now on. Errors: `invalid_payload`,
 * `unknown_message_type`, `forbidden`: what could not run, or not by this token, is not scheduled; `payload_too_large`; `invalid_transition` for one more than a tenant may have.
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
  const { cron, timeZone, command } = request;
  const [before] = await selectSchedules(env.DB, sql`tenant_id = ${by.tenantId} AND name = ${name}`);
  if (before === undefined) await assertRoom(env, by);
  await batch(env.DB, [
    ...(before ? noteUnstarted(before, `${by.actor} changed it before it was started.`) : []),
    sql`
      ${insertSchedule(by, name, { ...request, payload })}
      ON CONFLICT (tenant_id, name) DO UPDATE SET
        cron = excluded.cron, time_zone = excluded.time_zone, command = excluded.command, payload = excluded.payload, late_ms = excluded.late_ms,
        next_at = iif(schedules.state = 'active', excluded.next_at, NULL), revision = schedules.revision + 1,
        changed_at = excluded.changed_at, changed_by = excluded.changed_by`,
    audit(by, { ...action("schedule", name, reason), detail: { cron, time_zone: timeZone, command } }, false),
  ]);
  return getSchedule(env, by, name);
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

async function assertRoom(env: EngineEnv, { tenantId }: Operator): Promise<void> {
  const [found] = await query<{ count: number }>(env.DB, sql`SELECT count(*) AS count FROM schedules WHERE tenant_id = ${tenantId}`);
  if ((found?.count ?? 0) < MAX_SCHEDULES) return;
  throw new MillraceError("invalid_transition", `A tenant has at most ${MAX_SCHEDULES} schedules: end one that nobody needs first.`);
}

/** A schedule that comes with something else, in the same write; one of this name that is there already stays as people have it. */
export function ensureSchedule(by: Operator, name: string, request: ScheduleRequest): Statement {
  return sql`${insertSchedule(by, name, request)} ON CONFLICT (tenant_id, name) DO NOTHING`;
}

function insertSchedule({ tenantId, actor }: Operator, name: string, request: ScheduleRequest): Statement {
  const { cron, timeZone, command, payload, lateMs } = request;
  const at = Date.now();
  return sql`
    INSERT INTO schedules (tenant_id, name, cron, time_zone, command, payload, late_ms, state, next_at, changed_at, changed_by)
    VALUES (${tenantId}, ${name}, ${cron}, ${timeZone}, ${command}, ${JSON.stringify(payload)}, ${lateMs}, 'active', ${nextAfter(request, at)}, ${at}, ${actor})`;
}

/** Nothing is due until it is resumed. Errors: `schedule_not_found`, `invalid_transition` when it is paused already. */
export async function pauseSchedule(env: EngineEnv, by: Operator, name: string, reason: string): Promise<Schedule> {
  const before = await getSchedule(env, by, name);
  await move(env, by, before, action("pause", name, reason), [
    ...noteUnstarted(before, `${by.actor} paused it before it was started.`),
    change(before, by, "paused", null, Date.now()),
  ]);
  return getSchedule(env, by, name);
}

/** Due again from now on. The times that came meanwhile are noted, not made up for. Errors: `schedule_not_found`, `invalid_transition`. */
export async function resumeSchedule(env: EngineEnv, by: Operator, name: string, reason: string): Promise<Schedule> {
  const before = await getSchedule(env, by, name);
  const at = Date.now();
  await move(env, by, before, action("resume", name, reason), [
    ...notePaused(before, at),
    change(before, by, "active", nextAfter(before, at), at),
  ]);
  return getSchedule(env, by, name);
}

/** Ends a schedule. What became of its times can be read until it is pruned. Errors: `schedule_not_found`. */
export async function deleteSchedule(env: EngineEnv, by: Operator, name: string, reason: string): Promise<void> {
  const before = await getSchedule(env, by, name);
  await batch(env.DB, [
    ...noteUnstarted(before, `${by.actor} ended it before it was started.`),
    sql`DELETE FROM schedules WHERE tenant_id = ${by.tenantId} AND name = ${name}`,
    audit(by, action("unschedule", name, reason), false),
  ]);
}

/** The last statement is the one whose row the action is about: the audit stands right behind it. */
async function move(env: EngineEnv, by: Operator, before: Schedule, done: Action, statements: Statement[]): Promise<void> {
  const results = await batch(env.DB, [...statements, audit(by, done, false), applied(done.id)]);
  if (results.at(-1)?.[0]?.result === "applied") return;
  const to = done.verb === "pause" ? "paused" : "active";
  throw new MillraceError("invalid_transition", `The schedule is ${before.state}, or somebody else has just changed it: read it again.`, {
    from: before.state,
    to,
  });
}

function change(
  { tenantId, name, revision }: Schedule,
  by: Operator,
  state: Schedule["state"],
  next: number | null,
  at: number,
): Statement {
  const from = state === "paused" ? "active" : "paused";
  return sql`
    UPDATE schedules SET state = ${state}, next_at = ${next}, revision = revision + 1, changed_at = ${at}, changed_by = ${by.actor}
    WHERE tenant_id = ${tenantId} AND name = ${name} AND revision = ${revision} AND state = ${from}`;
}

/** Times that have come and that nobody has started yet, and nobody will: what becomes of the schedule now looks only ahead. */
function noteUnstarted(schedule: Schedule, reason: string): Statement[] {
  const at = Date.now();
  const { tenantId, name, revision, nextAt } = schedule;
  if (nextAt === null || nextAt > at) return [];
  const { last, earlier } = passedSince(schedule, nextAt, at);
  const run = { dueAt: nextAt, state: "missed", untilAt: last, times: (earlier?.count ?? 0) + 1, instanceId: null, reason } as const;
  const still = sql`
    EXISTS (SELECT 1 FROM schedules s WHERE s.tenant_id = ${tenantId} AND s.name = ${name} AND s.revision = ${revision} AND s.next_at = ${nextAt})`;
  return [insertRun(schedule, run, at, still)];
}

function notePaused(schedule: Schedule, at: number): Statement[] {
  const first = nextAfter(schedule, schedule.changedAt);
  if (schedule.state !== "paused" || first === null || first > at) return [];
  const { last, earlier } = passedSince(schedule, first, at);
  const times = (earlier?.count ?? 0) + 1;
  const reason = `${schedule.changedBy} had paused it.`;
  return [insertRun(schedule, { dueAt: first, state: "paused", untilAt: last, times, instanceId: null, reason }, at)];
}

function action(verb: Action["verb"], target: string, reason: string): Action {
  return { id: crypto.randomUUID(), verb, target, instanceId: null, reason };
}
