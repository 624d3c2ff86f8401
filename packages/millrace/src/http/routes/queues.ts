import * as z from "zod";
import { deadLettersByType } from "../../inspect/dead-letters-by-type.ts";
import { vitalsOf } from "../../keeper/client.ts";
import { WINDOW_MINUTES } from "../../observe/metrics/folding.ts";
import { messagesByMinute, QUEUE_SOURCES, type QueueHealth, queueHealth } from "../../observe/metrics/queue-health.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { wholeNumber } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, timestamp } from "../time.ts";

/** Minutes that rates are taken from where nobody says how many. */
const RATE_MINUTES = 5;

const minutesOf = (usual: number) =>
  z.strictObject({
    minutes: wholeNumber(1, WINDOW_MINUTES).default(usual).meta({ type: "integer", minimum: 1, maximum: WINDOW_MINUTES, default: usual }),
  });

const source = z.enum(["counts", "queue.metrics()", "d1", "platform"]);
const seconds = (description: string) => z.number().nullable().meta({ description });

const QueueSchema = z
  .object({
    queue: z.string(),
    depth: z
      .int()
      .nullable()
      .meta({ description: "Messages that wait, without those in a back-off. Null for a lane, or where the queue does not say." }),
    oldest_seconds: seconds("Age of the oldest of them."),
    lag_seconds: seconds("Time within which 99 of 100 messages had their first delivery."),
    in_per_minute: z.number().meta({ description: "Messages sent." }),
    out_per_minute: z.number().meta({ description: "Messages acknowledged." }),
    retry_share: z.number().min(0).max(1).nullable().meta({ description: "Deliveries that were sent back, of all." }),
    dead_letters_open: z.int().meta({ description: "Letters that nobody has settled, up to 10000." }),
    processing_p50_seconds: seconds("Time of a batch from its delivery to its settlement: half took less."),
    processing_p99_seconds: seconds("The same: 99 of 100 took less."),
  })
  .meta({ id: "QueueHealth" });

const SourceSchema = z.object({ source, age_seconds: z.number() }).meta({ id: "NumberSource" });

const HealthSchema = z.object({
  at: timestamp,
  minutes: z.int(),
  items: z.array(QueueSchema),
  sources: z
    .record(z.string(), SourceSchema)
    .meta({ description: "Where each number comes from, and how old it is. What was counted in the last ten seconds may be missing." }),
});

const MinuteSchema = z
  .object({ minute: timestamp, queue: z.string(), type: z.string(), outcomes: z.record(z.string(), z.int()) })
  .meta({ id: "MinuteOfMessages" });

const LettersSchema = z.object({ queue: z.string(), type: z.string(), captured: z.int(), open: z.int() }).meta({ id: "DeadLettersOfType" });

const health = createRoute({
  method: "get",
  path: "/v1/queues",
  operationId: "listQueues",
  summary: "Show how every queue does: depth, lag, rates, retries, dead letters",
  description:
    "Of the whole deployment, which names no tenant. Rates and latencies are of the last minutes, five where nothing else is asked for.",
  ...needs("observe"),
  request: { query: minutesOf(RATE_MINUTES) },
  responses: { 200: answers("All queues and lanes", HealthSchema), ...problems("unauthorized", "forbidden", "invalid_payload") },
});

const byMinute = createRoute({
  method: "get",
  path: "/v1/messages/by-minute",
  operationId: "listMessagesByMinute",
  summary: "Show deliveries by minute, queue and type, and what became of them",
  description: "Newest first. A type that no deployed code names is `unknown`.",
  ...needs("observe"),
  request: { query: minutesOf(WINDOW_MINUTES) },
  responses: {
    200: answers("The minutes in which something was delivered", z.object({ at: timestamp, items: z.array(MinuteSchema) })),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const dead = createRoute({
  method: "get",
  path: "/v1/messages/dead-letters",
  operationId: "listDeadLettersByType",
  summary: "Show the dead letters of the last day by queue and type",
  description: "Of all tenants, up to 10000 of each state. A type that no deployed code names is `unknown`.",
  ...needs("observe"),
  request: { query: z.strictObject({}) },
  responses: {
    200: answers("Queues and types that have any", z.object({ items: z.array(LettersSchema) })),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

export function queues(catalog: Catalog) {
  return new Routes<HttpEnv>()
    .openapi(health, async (context) => {
      const { minutes } = context.req.valid("query");
      const seen = await vitalsOf(context.env);
      const age_seconds = ageOf(seen.at);
      return context.json(
        {
          at: iso(seen.at),
          minutes,
          items: queueHealth(seen, catalog.consumers, minutes).map(asItem),
          sources: Object.fromEntries(Object.entries(QUEUE_SOURCES).map(([number, from]) => [number, { source: from, age_seconds }])),
        },
        200,
      );
    })
    .openapi(byMinute, async (context) => {
      const seen = await vitalsOf(context.env);
      const items = messagesByMinute(seen, context.req.valid("query").minutes);
      return context.json({ at: iso(seen.at), items: items.map(({ minute, ...rest }) => ({ minute: iso(minute), ...rest })) }, 200);
    })
    .openapi(dead, async (context) =>
      context.json({ items: await deadLettersByType(context.env, (type) => catalog.kindsOf(type).length > 0) }, 200),
    );
}

function ageOf(at: number): number {
  return Math.max(0, Date.now() - at) / 1000;
}

function asItem(health: QueueHealth): z.infer<typeof QueueSchema> {
  return {
    queue: health.queue,
    depth: health.depth,
    oldest_seconds: health.oldestSeconds,
    lag_seconds: health.lagSeconds,
    in_per_minute: health.inPerMinute,
    out_per_minute: health.outPerMinute,
    retry_share: health.retryShare,
    dead_letters_open: health.deadLettersOpen,
    processing_p50_seconds: health.processingP50Seconds,
    processing_p99_seconds: health.processingP99Seconds,
  };
}
