import * as z from "zod";
import { deadLettersByType } from "../../inspect/dead-letters.ts";
import { pausesOf } from "../../inspect/workflows.ts";
import { vitalsOf } from "../../keeper/client.ts";
import { SOURCE_KINDS } from "../../observe/metrics/batches.ts";
import { WINDOW_MINUTES } from "../../observe/metrics/folding.ts";
import { MinuteOfMessages, messagesByMinute, QUEUE_SOURCES, QueueHealth, queueHealth } from "../../observe/metrics/queue-health.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { ownOf } from "../../topology/consumer.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { wholeNumber } from "../paging.ts";
import { reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";
import { iso, timestamp } from "../time.ts";
import { PausedSchema, pausedView } from "./workflows.ts";

const RATE_MINUTES = 5;

const minutesOf = (usual: number) =>
  z.strictObject({
    minutes: wholeNumber(1, WINDOW_MINUTES).default(usual).meta({ type: "integer", minimum: 1, maximum: WINDOW_MINUTES, default: usual }),
  });

const source = z.enum(["counts", "queue.metrics()", "d1", "platform"]);

const QueueSchema = QueueHealth.extend({
  paused: PausedSchema.nullable().meta({ description: "The pause for all tenants or for your tenant; null while the queue is active." }),
}).meta({ id: "QueueState" });

const SourceSchema = z.object({ source, age_seconds: z.number() }).meta({ id: "NumberSource" });

const HealthSchema = z.object({
  at: timestamp,
  minutes: z.int(),
  items: z.array(QueueSchema),
  sources: z
    .record(z.string(), SourceSchema)
    .meta({ description: "The source and age of each number. Counts of the last ten seconds may be missing." }),
});

const LettersSchema = z.object({ queue: z.string(), type: z.string(), captured: z.int(), open: z.int() }).meta({ id: "DeadLettersOfType" });

const health = createRoute({
  ...at("get", "/v1/queues", "listQueues", "queues list"),
  summary: "Get the health of all queues",
  description:
    "Returns depth, lag, rates, retries and dead letters of each queue of the whole deployment, without tenants. Rates and latencies cover the last `minutes`, by default five.",
  ...needs("observe"),
  request: { query: minutesOf(RATE_MINUTES) },
  responses: reads("All queues and lanes", HealthSchema),
});

const byMinute = createRoute({
  ...at("get", "/v1/messages/by-minute", "listMessagesByMinute", "messages by-minute"),
  summary: "Get deliveries by minute, queue, type and outcome",
  description: "Newest minute first. A type that is not deployed is `unknown`. `sources`: by kind of sender.",
  ...needs("observe"),
  request: {
    query: minutesOf(WINDOW_MINUTES).extend({
      source: z.enum(SOURCE_KINDS).optional().meta({ description: "The kind of sender." }),
    }),
  },
  responses: reads("The minutes with deliveries", z.object({ at: timestamp, items: z.array(MinuteOfMessages) })),
});

const dead = createRoute({
  ...at("get", "/v1/messages/dead-letters", "listDeadLettersByType", "messages dead-letters"),
  summary: "Count the dead letters of the last day by queue and type",
  description: "Covers all tenants, up to 10000 of each state. A type that is not deployed is `unknown`.",
  ...needs("observe"),
  request: { query: z.strictObject({}) },
  responses: reads("Queues and types with dead letters", z.object({ items: z.array(LettersSchema) })),
});

export function queues(catalog: Catalog) {
  return new Routes<HttpEnv>()
    .openapi(health, async (context) => {
      const { minutes } = context.req.valid("query");
      const consumers = ownOf(catalog.consumers);
      const seen = await vitalsOf(context.env);
      const pauses = await pausesOf(
        context.env,
        context.var.caller,
        consumers.map(({ queue }) => ["queue", queue.name]),
      );
      const age_seconds = ageOf(seen.at);
      return context.json(
        {
          at: iso(seen.at),
          minutes,
          items: queueHealth(seen, consumers, minutes).map((one) => ({ ...one, paused: pausedView(pauses("queue", one.queue)) })),
          sources: Object.fromEntries(Object.entries(QUEUE_SOURCES).map(([number, from]) => [number, { source: from, age_seconds }])),
        },
        200,
      );
    })
    .openapi(byMinute, async (context) => {
      const seen = await vitalsOf(context.env);
      const { minutes, source } = context.req.valid("query");
      return context.json({ at: iso(seen.at), items: messagesByMinute(seen, minutes, source) }, 200);
    })
    .openapi(dead, async (context) =>
      context.json({ items: await deadLettersByType(context.env, (type) => catalog.kindsOf(type).length > 0) }, 200),
    );
}

function ageOf(at: number): number {
  return Math.max(0, Date.now() - at) / 1000;
}
