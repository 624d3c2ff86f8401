import * as z from "zod";
import { component, iso, timestamp } from "../../contract/row.ts";
import { AlertFilter, AlertRow, listAlerts } from "../../inspect/alerts.ts";
import { costsOfDeployment } from "../../inspect/costs.ts";
import { deadLettersByType, LettersOfType } from "../../inspect/dead-letters.ts";
import { countDivergences, DivergenceFilter, DivergenceRow, listDivergences } from "../../inspect/divergences.ts";
import { assertSchema } from "../../inspect/health.ts";
import { Paused, pausesOf } from "../../inspect/workflows.ts";
import { keeperAge, metricsOf, vitalsOf } from "../../keeper/client.ts";
import { Costs } from "../../observe/cost/workflow-cost.ts";
import { exposition, MEDIA_TYPES } from "../../observe/metrics/exposition.ts";
import { WINDOW_MINUTES } from "../../observe/metrics/folding.ts";
import { MinuteOfMessages, messagesByMinute, QUEUE_SOURCES, QueueHealth, queueHealth } from "../../observe/metrics/queue-health.ts";
import { SOURCE_KINDS } from "../../observe/metrics/runs.ts";
import { MAX_MUTE_MS, mute } from "../../operate/mute-alert.ts";
import { ownOf } from "../../topology/consumer.ts";
import { needing, needs, operation, reasoned } from "../operation.ts";
import { page, pageOf, pageQuery, wholeNumber } from "../paging.ts";

export const METRICS_PATH = "/metrics";

const RATE_MINUTES = 5;

const minutes = wholeNumber(1, WINDOW_MINUTES);

const QueueSchema = QueueHealth.extend({
  paused: Paused.nullable().describe("The pause for all tenants or for your tenant; null while the queue is active."),
}).meta({ id: "QueueState" });

const source = z.enum(["counts", "queue.metrics()", "d1", "platform"]);
const SourceSchema = component("NumberSource", { source, age_seconds: z.number() });

const unavailable = {
  cells_unavailable: z
    .optional(z.array(z.int()))
    .describe("The cells that did not answer. The result lacks their part. Absent if all cells answered."),
};
const unavailableOf = (cells: readonly number[]) => (cells.length > 0 ? { cells_unavailable: [...cells] } : {});

const MutedSchema = component("AlertMuted", { action_id: z.string(), changed: z.boolean() });
const muting = { ...needs("observe", "operate"), params: { id: z.string().min(1).max(64) }, problems: ["alert_not_found"] } as const;

export const deployment = [
  operation("get", "/healthz", "getHealth", "health show", {
    summary: "Check the deployment, its database and the migrations",
    description:
      "Answers 200 if the deployment and its database work and all migrations are applied. 500 `config_invalid` names the first missing migration.",
    security: [],
    answer: [
      "Healthy",
      z.object({
        ok: z.literal(true),
        keeper_seconds: z
          .nullable(z.int())
          .describe(
            "Seconds since the last run of the keeper: about ten in a healthy deployment. Null if its alarm was not set; this request has set it.",
          ),
      }),
    ],
    problems: ["config_invalid"],
    async run({ env, engine, context }) {
      await assertSchema(env, engine.schema);
      context.header("cache-control", "no-store");
      const ageMs = await keeperAge(env);
      return { ok: true, keeper_seconds: ageMs === null ? null : Math.round(ageMs / 1000) };
    },
  }),
  operation("get", METRICS_PATH, "getMetrics", "metrics show", {
    summary: "Get metrics of the whole deployment, for Prometheus",
    description:
      "The Prometheus text format 0.0.4, or OpenMetrics 1.0 if the request accepts it. The values are at most about ten seconds old.",
    ...needs("observe"),
    answer: {
      200: {
        description: "All series. No label names a tenant",
        content: { "text/plain": { schema: z.string() }, "application/openmetrics-text": { schema: z.string() } },
      },
    },
    async run({ env, context }) {
      const { ever, samples } = await metricsOf(env);
      const format = (context.req.header("accept") ?? "").includes("application/openmetrics-text") ? "openmetrics" : "text";
      context.header("content-type", MEDIA_TYPES[format]);
      return context.body(exposition(ever, samples, format), 200);
    },
  }),
  operation("get", "/v1/costs", "getCosts", "costs show", {
    summary: "Get the cost of each workflow and the monthly cost of the deployment",
    description: "Covers all tenants, by list prices. Without CPU time, R2, the storage of app objects, and the charges of upstreams.",
    ...needs("observe"),
    answer: ["The costs", Costs],
    run: ({ env, catalog }) => costsOfDeployment(env, catalog),
  }),
  operation("get", "/v1/divergences", "listDivergences", "divergences list", {
    summary: "List divergences, newest first",
    description: "The scope `observe` reads the divergences of all tenants, the scope `read` those of the token's tenant.",
    ...needing([["read"], ["observe"]]),
    query: { ...DivergenceFilter.shape, ...pageQuery },
    answer: [
      "A page of divergences",
      pageOf(DivergenceRow).extend({
        open: z.record(z.string(), z.int()).describe("The number of open ones, by kind."),
        ...unavailable,
      }),
    ],
    async run({ env, by, query }) {
      const [found, { open, failed }] = await Promise.all([listDivergences(env, by, query), countDivergences(env, by)]);
      return { ...page(found), open, ...unavailableOf(failed) };
    },
  }),
  operation("get", "/v1/queues", "listQueues", "queues list", {
    summary: "Get the health of all queues",
    description:
      "Returns depth, lag, rates, retries and dead letters of each queue of the whole deployment, without tenants. Rates and latencies cover the last `minutes`, by default five.",
    ...needs("observe"),
    query: { minutes: minutes.default(RATE_MINUTES) },
    answer: [
      "All queues and lanes",
      z.object({
        at: timestamp,
        minutes: z.int(),
        items: z.array(QueueSchema),
        sources: z
          .record(z.string(), SourceSchema)
          .describe("The source and age of each number. Counts of the last ten seconds may be missing."),
        ...unavailable,
      }),
    ],
    async run({ env, by, catalog, query: { minutes } }) {
      const consumers = ownOf(catalog.consumers);
      const seen = await vitalsOf(env);
      const names = consumers.map(({ queue }) => ["queue", queue.name] as const);
      const pauses = await pausesOf(env, by, names);
      const age_seconds = Math.max(0, Date.now() - seen.at) / 1000;
      return {
        at: iso(seen.at),
        minutes,
        items: queueHealth(seen, consumers, minutes).map((one) => ({ ...one, paused: pauses("queue", one.queue) })),
        sources: Object.fromEntries(Object.entries(QUEUE_SOURCES).map(([number, from]) => [number, { source: from, age_seconds }])),
        ...unavailableOf(seen.failed),
      };
    },
  }),
  operation("get", "/v1/messages/by-minute", "listMessagesByMinute", "messages by-minute", {
    summary: "Get deliveries by minute, queue, type and outcome",
    description: "Newest minute first. A type that is not deployed is `unknown`. `sources`: by kind of sender.",
    ...needs("observe"),
    query: { minutes: minutes.default(WINDOW_MINUTES), source: z.enum(SOURCE_KINDS).optional().describe("The kind of sender.") },
    answer: ["The minutes with deliveries", z.object({ at: timestamp, items: z.array(MinuteOfMessages) })],
    async run({ env, query }) {
      const seen = await vitalsOf(env);
      return { at: iso(seen.at), items: messagesByMinute(seen, query.minutes, query.source) };
    },
  }),
  operation("get", "/v1/messages/dead-letters", "listDeadLettersByType", "messages dead-letters", {
    summary: "Count the dead letters of the last day by queue and type",
    description: "Covers all tenants, up to 10000 of each state. A type that is not deployed is `unknown`.",
    ...needs("observe"),
    answer: ["Queues and types with dead letters", z.object({ items: z.array(LettersOfType), ...unavailable })],
    async run({ env, catalog }) {
      const { items, failed } = await deadLettersByType(env, (type) => catalog.kindsOf(type).length > 0);
      return { items, ...unavailableOf(failed) };
    },
  }),
  operation("get", "/v1/alerts", "listAlerts", "alerts list", {
    summary: "List alerts, newest first",
    description: "Lists the open alerts of the deployment, and those resolved in the last 30 days.",
    ...needs("observe"),
    query: { ...AlertFilter.shape, ...pageQuery },
    answer: ["A page of alerts", pageOf(AlertRow)],
    run: async ({ env, query }) => page(await listAlerts(env, query)),
  }),
  operation("post", "/v1/alerts/{id}/mute", "muteAlert", "alerts mute", {
    summary: "Mute an alert until a time",
    description: "Sends no notification for this alert and for later alerts with the same rule and labels. They remain listed.",
    ...muting,
    body: reasoned.extend({
      until: timestamp.refine(
        (until) => Date.parse(until) > Date.now() && Date.parse(until) <= Date.now() + MAX_MUTE_MS,
        "must be within the next 30 days",
      ),
    }),
    answer: ["It is muted", MutedSchema],
    run: ({ env, by, param, body }) => mute(env, by, param.id, Date.parse(body.until), body.reason),
  }),
  operation("post", "/v1/alerts/{id}/unmute", "unmuteAlert", "alerts unmute", {
    summary: "Unmute an alert",
    description: "Sends a missed notification within seconds.",
    ...muting,
    body: reasoned,
    answer: ["The alert is not muted", MutedSchema],
    run: ({ env, by, param, body }) => mute(env, by, param.id, null, body.reason),
  }),
];
