import * as z from "zod";
import { redactionOf } from "../../inspect/redaction.ts";
import { deleteSchedule, pauseSchedule, putSchedule, resumeSchedule, runSchedule } from "../../schedules/change.ts";
import { getSchedule, listScheduleRuns, listSchedules, Schedule, ScheduleRun } from "../../schedules/schedule.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { instanceStatus } from "../accepted.ts";
import { traceHeadersSchema, traceOf } from "../headers.ts";
import { operation, reasoned } from "../operation.ts";
import { nameQuery, page, pageByName, pageOf, pageQuery } from "../paging.ts";

const MAX_LATE_SECONDS = 7 * 86_400;

const scheduleSchema = reasoned.extend({
  cron: z.string().trim().max(100).describe("Five fields: minute, hour, day of the month, month, day of the week."),
  time_zone: z.string().min(1).max(60).default("UTC").describe("An IANA name, such as Europe/Berlin."),
  command: z.strictObject({
    type: z.string().min(1).max(100),
    schema_version: z.int().min(1).optional().describe("The version of the payload. Default: the command's present version."),
    payload: z.unknown(),
    must_end_by: z.never("is not supported in a schedule: its runs have the deadline of their workflow; remove it").optional(),
    callback_url: z.never("is not supported in a schedule: subscribe a webhook to the results of its runs instead; remove it").optional(),
  }),
  late_seconds: z
    .int()
    .min(60)
    .max(MAX_LATE_SECONDS)
    .default(3600)
    .describe("A run that would start later than this is recorded as missed."),
  revision: z
    .optional(z.int().min(0))
    .describe("The expected current revision, 0 for a new schedule. A different revision is refused (409). Default: any."),
});

const params = {
  name: z
    .string()
    .max(80)
    .regex(/^[a-z0-9][a-z0-9_-]*$/, "must contain only lower case letters, digits, - or _"),
};

function shown(catalog: Catalog, schedule: Schedule): Schedule {
  const { type, schema_version, payload } = schedule.command;
  const shownPayload = redactionOf(catalog).payload({ message_type: type, schema_version }, payload);
  return { ...schedule, command: { type, schema_version, payload: shownPayload } };
}

export const schedules = [
  operation("get", "/v1/schedules", "listSchedules", "schedules list", {
    summary: "List schedules by name, each with its last run",
    description: "Returns each schedule with its next due time and the result of its last one.",
    query: nameQuery(50, 200),
    answer: ["A page of schedules", pageOf(Schedule)],
    async run({ env, by, catalog, query: { cursor = "", limit } }) {
      const found = await listSchedules(env, by, { after: cursor, limit: limit + 1 });
      return pageByName(
        found,
        limit,
        ({ name }) => name,
        (one) => shown(catalog, one),
      );
    },
  }),
  operation("get", "/v1/schedules/{name}", "getSchedule", "schedules show", {
    summary: "Show a schedule",
    description: "Returns the schedule with its revision and its next due time.",
    params,
    answer: ["The schedule", Schedule],
    problems: ["schedule_not_found"],
    run: async ({ env, by, catalog, param }) => shown(catalog, await getSchedule(env, by, param.name)),
  }),
  operation("put", "/v1/schedules/{name}", "putSchedule", "schedules put", {
    summary: "Create or replace a schedule",
    description:
      "Each due time sends one command. Its key consists of the schedule's name and the due time. A paused schedule remains paused.",
    params,
    body: scheduleSchema,
    answer: ["The schedule is stored", Schedule],
    problems: ["unknown_message_type", "invalid_transition"],
    async run({ env, by, catalog, param, body: { cron, time_zone: timeZone, command, late_seconds, reason, revision } }) {
      const { type, schema_version: schemaVersion, payload = {} } = command;
      const asked = { command: type, schemaVersion, payload, lateMs: late_seconds * 1000, revision };
      return shown(catalog, await putSchedule(env, catalog, by, param.name, { cron, timeZone, ...asked }, reason));
    },
  }),
  operation("delete", "/v1/schedules/{name}", "deleteSchedule", "schedules delete", {
    summary: "End a schedule",
    description: "Its past runs remain readable.",
    params,
    query: reasoned.shape,
    answer: { 204: { description: "It is gone" } },
    problems: ["schedule_not_found"],
    async run({ env, by, param, query, context }) {
      await deleteSchedule(env, by, param.name, query.reason);
      return context.body(null, 204);
    },
  }),
  operation("post", "/v1/schedules/{name}/pause", "pauseSchedule", "schedules pause", {
    summary: "Pause a schedule",
    description: "Starts no run until the schedule is resumed. Times that pass meanwhile are recorded as `paused`.",
    params,
    body: reasoned,
    answer: ["Paused", Schedule],
    problems: ["schedule_not_found", "invalid_transition"],
    run: async ({ env, by, catalog, param, body }) => shown(catalog, await pauseSchedule(env, by, param.name, body.reason)),
  }),
  operation("post", "/v1/schedules/{name}/resume", "resumeSchedule", "schedules resume", {
    summary: "Resume a schedule",
    description: "Times that passed meanwhile are recorded as `paused` and are not made up.",
    params,
    body: reasoned,
    answer: ["Active", Schedule],
    problems: ["schedule_not_found", "unknown_message_type", "invalid_transition"],
    run: async ({ env, by, catalog, param, body }) => shown(catalog, await resumeSchedule(env, catalog, by, param.name, body.reason)),
  }),
  operation("post", "/v1/schedules/{name}/run", "runSchedule", "schedules run", {
    summary: "Run a schedule now",
    description:
      "Sends the command in addition to the due times, also for a paused schedule.\n\nA repeat with the same `Idempotency-Key` is the same run, even if the schedule has changed.",
    params,
    headers: traceHeadersSchema,
    key: "Names the run.",
    body: reasoned,
    answer: ["Accepted", z.object({ instance_id: z.string(), replayed: z.boolean(), instance_status: instanceStatus })],
    status: 202,
    problems: ["schedule_not_found", "unknown_message_type"],
    async run({ env, by, catalog, param, body, key: occasion = crypto.randomUUID(), context }) {
      const asked = { ...body, occasion, ...traceOf(context.req) };
      const { instanceId, replayed, status } = await runSchedule(env, catalog, by, param.name, asked);
      return { instance_id: instanceId, replayed, instance_status: status };
    },
  }),
  operation("get", "/v1/schedules/{name}/runs", "listScheduleRuns", "schedules runs", {
    summary: "List the runs of a schedule, newest first",
    description: "Returns due times with their result, including missed and paused ones.",
    params,
    query: pageQuery,
    answer: ["A page of runs", pageOf(ScheduleRun)],
    run: async ({ env, by, param, query }) => page(await listScheduleRuns(env, by, param.name, query)),
  }),
];
