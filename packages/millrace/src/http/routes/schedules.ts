import * as z from "zod";
import { redactionOf } from "../../inspect/redaction.ts";
import { deleteSchedule, pauseSchedule, putSchedule, resumeSchedule } from "../../schedules/change.ts";
import { runSchedule } from "../../schedules/run-now.ts";
import { getSchedule, listScheduleRuns, listSchedules, Schedule, ScheduleRun } from "../../schedules/schedule.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { instanceStatus } from "../accepted.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { idempotencyKey, keyHeader, replayedHeader, replayedHeaderSchema } from "../idempotency-key.ts";
import { nameQuery, page, pageByName, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers, changes, reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";
import { traceHeadersSchema, traceOf } from "../trace.ts";

const MAX_LATE_SECONDS = 7 * 86_400;

const scheduleSchema = reasoned.extend({
  cron: z.string().trim().max(100).meta({ description: "Five fields: minute, hour, day of the month, month, day of the week." }),
  time_zone: z.string().min(1).max(60).default("UTC").meta({ description: "An IANA name, such as Europe/Berlin." }),
  command: z.strictObject({
    type: z.string().min(1).max(100),
    payload: z.unknown(),
    must_end_by: z.never("is not supported in a schedule: its runs have the deadline of their workflow; remove it").optional(),
    callback_url: z.never("is not supported in a schedule: subscribe a webhook to the results of its runs instead; remove it").optional(),
  }),
  late_seconds: z
    .int()
    .min(60)
    .max(MAX_LATE_SECONDS)
    .default(3600)
    .meta({ description: "A run that would start later than this is recorded as missed." }),
  revision: z.int().min(0).optional().meta({
    description: "The expected current revision, 0 for a new schedule. A different revision is refused (409). Default: any.",
  }),
});

const params = z.object({
  name: z
    .string()
    .max(80)
    .regex(/^[a-z0-9][a-z0-9_-]*$/, "must contain only lower case letters, digits, - or _"),
});
const found = ["unauthorized", "forbidden", "invalid_payload", "schedule_not_found"] as const;

const list = createRoute({
  ...at("get", "/v1/schedules", "listSchedules", "schedules list"),
  summary: "List schedules by name, each with its last run",
  description: "Returns each schedule with its next due time and the result of its last one.",
  ...needs("read"),
  request: {
    query: z.strictObject(nameQuery(50, 200)),
  },
  responses: reads("A page of schedules", pageOf(Schedule)),
});

const show = createRoute({
  ...at("get", "/v1/schedules/{name}", "getSchedule", "schedules show"),
  summary: "Show a schedule",
  description: "Returns the schedule with its revision and its next due time.",
  ...needs("read"),
  request: { params },
  responses: reads("The schedule", Schedule, "schedule_not_found"),
});

const put = createRoute({
  ...at("put", "/v1/schedules/{name}", "putSchedule", "schedules put"),
  summary: "Create or replace a schedule",
  description:
    "Each due time sends one command. Its key consists of the schedule's name and the due time. A paused schedule remains paused.",
  ...needs("operate"),
  request: { params, body: jsonBody(scheduleSchema) },
  responses: changes("The current schedule", Schedule, "unknown_message_type", "invalid_transition"),
});

const remove = createRoute({
  ...at("delete", "/v1/schedules/{name}", "deleteSchedule", "schedules delete"),
  summary: "End a schedule",
  description: "Its past runs remain readable.",
  ...needs("operate"),
  request: { params, query: reasoned },
  responses: { 204: { description: "It is gone" }, ...problems(...found) },
});

const pause = createRoute({
  ...at("post", "/v1/schedules/{name}/pause", "pauseSchedule", "schedules pause"),
  summary: "Pause a schedule",
  description: "Starts no run until the schedule is resumed. Times that pass meanwhile are recorded as `paused`.",
  ...needs("operate"),
  request: { params, body: jsonBody(reasoned) },
  responses: changes("Paused", Schedule, "schedule_not_found", "invalid_transition"),
});

const resume = createRoute({
  ...at("post", "/v1/schedules/{name}/resume", "resumeSchedule", "schedules resume"),
  summary: "Resume a schedule",
  description: "Times that passed meanwhile are recorded as `paused` and are not made up.",
  ...needs("operate"),
  request: { params, body: jsonBody(reasoned) },
  responses: changes("Active", Schedule, "schedule_not_found", "unknown_message_type", "invalid_transition"),
});

const run = createRoute({
  ...at("post", "/v1/schedules/{name}/run", "runSchedule", "schedules run"),
  summary: "Run a schedule now",
  description:
    "Sends the command in addition to the due times, also for a paused schedule. A repeat with the same `Idempotency-Key` is the same run, even if the schedule has changed.",
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
  ...at("get", "/v1/schedules/{name}/runs", "listScheduleRuns", "schedules runs"),
  summary: "List the runs of a schedule, newest first",
  description: "Returns due times with their result, including missed and paused ones.",
  ...needs("read"),
  request: { params, query: z.strictObject(pageQuery) },
  responses: reads("A page of runs", pageOf(ScheduleRun)),
});

export function schedules(catalog: Catalog) {
  const redacted = (schedule: Schedule): Schedule => {
    const { type, payload } = schedule.command;
    return { ...schedule, command: { type, payload: redactionOf(catalog).payload({ message_type: type }, payload) } };
  };
  return new Routes<HttpEnv>()
    .openapi(list, async ({ env, req, var: { caller }, json }) => {
      const { cursor = "", limit } = req.valid("query");
      const found = await listSchedules(env, caller, { after: cursor, limit: limit + 1 });
      return json(
        pageByName(found, limit, ({ name }) => name, redacted),
        200,
      );
    })
    .openapi(show, async ({ env, req, var: { caller }, json }) =>
      json(redacted(await getSchedule(env, caller, req.valid("param").name)), 200),
    )
    .openapi(put, async ({ env, req, var: { caller }, json }) => {
      const { cron, time_zone: timeZone, command, late_seconds, reason, revision } = await readBody(req, scheduleSchema);
      const asked = { command: command.type, payload: command.payload ?? {}, lateMs: late_seconds * 1000, revision };
      const wanted = { cron, timeZone, ...asked };
      return json(redacted(await putSchedule(env, catalog, caller, req.valid("param").name, wanted, reason)), 200);
    })
    .openapi(remove, async ({ env, req, var: { caller }, body }) => {
      const { reason } = req.valid("query");
      await deleteSchedule(env, caller, req.valid("param").name, reason);
      return body(null, 204);
    })
    .openapi(pause, async ({ env, req, var: { caller }, json }) => {
      const { reason } = await readBody(req, reasoned);
      return json(redacted(await pauseSchedule(env, caller, req.valid("param").name, reason)), 200);
    })
    .openapi(resume, async ({ env, req, var: { caller }, json }) => {
      const { reason } = await readBody(req, reasoned);
      return json(redacted(await resumeSchedule(env, catalog, caller, req.valid("param").name, reason)), 200);
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
      json(page(await listScheduleRuns(env, caller, req.valid("param").name, req.valid("query"))), 200),
    );
}
