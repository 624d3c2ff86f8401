import * as z from "zod";
import { type Redaction, redactionOf } from "../../inspect/redaction.ts";
import { deleteSchedule, pauseSchedule, putSchedule, resumeSchedule } from "../../schedules/change.ts";
import { COUNTED_TIMES } from "../../schedules/cron.ts";
import { runSchedule } from "../../schedules/run-now.ts";
import { getSchedule, listScheduleRuns, listSchedules, type Schedule } from "../../schedules/schedule.ts";
import type { ScheduleRun } from "../../store/schedule-runs.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { instanceStatus } from "../accepted.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { idempotencyKey, keyHeader, replayedHeader, replayedHeaderSchema } from "../idempotency-key.ts";
import { nameQuery, page, pageByName, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";
import { traceHeadersSchema, traceOf } from "../trace.ts";

const MAX_LATE_SECONDS = 7 * 86_400;

const scheduleSchema = reasoned.extend({
  cron: z.string().trim().max(100).meta({ description: "Five fields: minute, hour, day of the month, month, day of the week." }),
  time_zone: z.string().min(1).max(60).default("UTC").meta({ description: "An IANA name, such as Europe/Berlin." }),
  command: z.strictObject({
    type: z.string().min(1).max(100),
    payload: z.unknown(),
    must_end_by: z.never("is not taken of a schedule: the deadline of its runs is that of their workflow; leave it out").optional(),
    callback_url: z.never("is not taken of a schedule: subscribe a webhook to what its runs come to; leave it out").optional(),
  }),
  late_seconds: z
    .int()
    .min(60)
    .max(MAX_LATE_SECONDS)
    .default(3600)
    .meta({ description: "A run that would begin later than this is stated as missed instead." }),
  revision: z.int().min(0).optional().meta({
    description:
      "The revision that this was made of, 0 for a new one: another one by now is not written over (409). Default: whatever is there.",
  }),
});

const RunSchema = z
  .object({
    due_at: timestamp,
    state: z.enum(["started", "by_hand", "refused", "missed", "paused"]),
    until: timestamp.meta({ description: "The last of the times it tells of." }),
    times: z.int().meta({ description: `How many times it tells of; ${COUNTED_TIMES} is to be read as at least.` }),
    instance_id: z.string().nullable(),
    reason: z.string().nullable(),
    noted_at: timestamp,
  })
  .meta({ id: "ScheduleRun" });

const ScheduleSchema = z
  .object({
    name: z.string(),
    cron: z.string(),
    time_zone: z.string(),
    command: z.object({ type: z.string(), payload: z.unknown() }),
    late_seconds: z.int(),
    state: z.enum(["active", "paused"]),
    next_at: timestamp.nullable().meta({ description: "Null while it is paused." }),
    last_run: RunSchema.nullable(),
    revision: z.int(),
    changed_at: timestamp,
    changed_by: z.string(),
  })
  .meta({ id: "Schedule" });

const params = z.object({
  name: z
    .string()
    .max(80)
    .regex(/^[a-z0-9][a-z0-9_-]*$/, "must be lower case letters, digits, - or _"),
});
const found = ["unauthorized", "forbidden", "invalid_payload", "schedule_not_found"] as const;

const list = createRoute({
  method: "get",
  path: "/v1/schedules",
  operationId: "listSchedules",
  summary: "List the schedules by name, each with what became of its last time",
  ...needs("read"),
  request: {
    query: z.strictObject(nameQuery(50, 200)),
  },
  responses: { 200: answers("A page of schedules", pageOf(ScheduleSchema)), ...problems("unauthorized", "forbidden", "invalid_payload") },
});

const show = createRoute({
  method: "get",
  path: "/v1/schedules/{name}",
  operationId: "getSchedule",
  summary: "Show a schedule",
  ...needs("read"),
  request: { params },
  responses: { 200: answers("The schedule", ScheduleSchema), ...problems(...found) },
});

const put = createRoute({
  method: "put",
  path: "/v1/schedules/{name}",
  operationId: "putSchedule",
  summary: "Make a schedule, or change it as a whole",
  description: "Each due time becomes one command, whose key is the schedule's name and that time. A paused schedule stays paused.",
  ...needs("operate"),
  request: { params, body: jsonBody(scheduleSchema) },
  responses: {
    200: answers("As it is now", ScheduleSchema),
    ...problems(...BODY_REFUSALS, "unknown_message_type", "invalid_transition"),
  },
});

const remove = createRoute({
  method: "delete",
  path: "/v1/schedules/{name}",
  operationId: "deleteSchedule",
  summary: "End a schedule",
  description: "What became of its times can still be read.",
  ...needs("operate"),
  request: { params, query: reasoned },
  responses: { 204: { description: "It is gone" }, ...problems(...found) },
});

const pause = createRoute({
  method: "post",
  path: "/v1/schedules/{name}/pause",
  operationId: "pauseSchedule",
  summary: "Have nothing due until it is resumed",
  ...needs("operate"),
  request: { params, body: jsonBody(reasoned) },
  responses: { 200: answers("Paused", ScheduleSchema), ...problems(...BODY_REFUSALS, "schedule_not_found", "invalid_transition") },
});

const resume = createRoute({
  method: "post",
  path: "/v1/schedules/{name}/resume",
  operationId: "resumeSchedule",
  summary: "Have it due again, from now on",
  description: "The times that came meanwhile are noted as `paused`, and not made up for.",
  ...needs("operate"),
  request: { params, body: jsonBody(reasoned) },
  responses: {
    200: answers("Active", ScheduleSchema),
    ...problems(...BODY_REFUSALS, "schedule_not_found", "unknown_message_type", "invalid_transition"),
  },
});

const run = createRoute({
  method: "post",
  path: "/v1/schedules/{name}/run",
  operationId: "runSchedule",
  summary: "Run its command now, beside its times",
  description: "Also that of a paused schedule. The same `Idempotency-Key` is the same run, whatever the schedule says by then.",
  ...needs("operate"),
  request: { params, headers: z.object({ ...keyHeader("Names the run."), ...traceHeadersSchema }), body: jsonBody(reasoned) },
  responses: {
    202: {
      ...answers("Accepted", z.object({ instance_id: z.string(), replayed: z.boolean(), instance_status: instanceStatus })),
      headers: replayedHeaderSchema,
    },
    ...problems(...BODY_REFUSALS, "schedule_not_found", "unknown_message_type"),
  },
});

const runs = createRoute({
  method: "get",
  path: "/v1/schedules/{name}/runs",
  operationId: "listScheduleRuns",
  summary: "List what became of its times, newest first: also those that were missed",
  ...needs("read"),
  request: { params, query: z.strictObject(pageQuery) },
  responses: { 200: answers("A page of times", pageOf(RunSchema)), ...problems("unauthorized", "forbidden", "invalid_payload") },
});

export function schedules(catalog: Catalog) {
  const scheduleView = (schedule: Schedule) => viewOf(schedule, redactionOf(catalog));
  return new Routes<HttpEnv>()
    .openapi(list, async ({ env, req, var: { caller }, json }) => {
      const { cursor = "", limit } = req.valid("query");
      const found = await listSchedules(env, caller, { after: cursor, limit: limit + 1 });
      return json(
        pageByName(found, limit, ({ name }) => name, scheduleView),
        200,
      );
    })
    .openapi(show, async ({ env, req, var: { caller }, json }) =>
      json(scheduleView(await getSchedule(env, caller, req.valid("param").name)), 200),
    )
    .openapi(put, async ({ env, req, var: { caller }, json }) => {
      const { cron, time_zone: timeZone, command, late_seconds, reason, revision } = await readBody(req, scheduleSchema);
      const asked = { command: command.type, payload: command.payload ?? {}, lateMs: late_seconds * 1000, revision };
      const wanted = { cron, timeZone, ...asked };
      return json(scheduleView(await putSchedule(env, catalog, caller, req.valid("param").name, wanted, reason)), 200);
    })
    .openapi(remove, async ({ env, req, var: { caller }, body }) => {
      const { reason } = req.valid("query");
      await deleteSchedule(env, caller, req.valid("param").name, reason);
      return body(null, 204);
    })
    .openapi(pause, async ({ env, req, var: { caller }, json }) => {
      const { reason } = await readBody(req, reasoned);
      return json(scheduleView(await pauseSchedule(env, caller, req.valid("param").name, reason)), 200);
    })
    .openapi(resume, async ({ env, req, var: { caller }, json }) => {
      const { reason } = await readBody(req, reasoned);
      return json(scheduleView(await resumeSchedule(env, catalog, caller, req.valid("param").name, reason)), 200);
    })
    .openapi(run, async ({ env, req, var: { caller }, json }) => {
      const { reason } = await readBody(req, reasoned);
      const occasion = idempotencyKey(req.header("idempotency-key")) ?? crypto.randomUUID();
      const { instanceId, replayed, status } = await runSchedule(env, catalog, caller, req.valid("param").name, {
        reason,
        occasion,
        ...traceOf(req),
      });
      return json({ instance_id: instanceId, replayed, instance_status: status }, 202, replayedHeader({ replayed }));
    })
    .openapi(runs, async ({ env, req, var: { caller }, json }) =>
      json(page(await listScheduleRuns(env, caller, req.valid("param").name, req.valid("query")), runView), 200),
    );
}

function viewOf(schedule: Schedule, redaction: Redaction): z.infer<typeof ScheduleSchema> {
  const { name, cron, timeZone, command, payload, lateMs, state, nextAt, lastRun, revision, changedAt, changedBy } = schedule;
  return {
    name,
    cron,
    time_zone: timeZone,
    command: { type: command, payload: redaction.payload({ message_type: command }, payload) },
    late_seconds: lateMs / 1000,
    state,
    next_at: isoOrNull(nextAt),
    last_run: lastRun && runView(lastRun),
    revision,
    changed_at: iso(changedAt),
    changed_by: changedBy,
  };
}

function runView({ dueAt, state, untilAt, times, instanceId, reason, notedAt }: ScheduleRun): z.infer<typeof RunSchema> {
  return { due_at: iso(dueAt), state, until: iso(untilAt), times, instance_id: instanceId, reason, noted_at: iso(notedAt) };
}
