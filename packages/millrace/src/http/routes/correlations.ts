import * as z from "zod";
import { readJob } from "../../inspect/correlation/job.ts";
import type { JobNode } from "../../inspect/correlation/node.ts";
import type { JobSummary } from "../../inspect/correlation/summary.ts";
import { INSTANCE_STATUSES } from "../../store/instances/status.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { isoOrNull, timestamp } from "../time.ts";

const NodeSchema = z
  .object({
    node: z.string().meta({ description: "The id of the node in the job; `cause` of another node refers to it." }),
    kind: z.enum(["instance", "command", "event", "dead_letter"]),
    message_type: z.string().nullable().meta({ description: "For an instance: the message that started it." }),
    idempotency_key: z.string().nullable(),
    name: z.string().nullable().meta({ description: "The workflow of an instance or the queue of a dead letter." }),
    status: z.string().meta({
      description: "The status of the instance or dead letter. For a message: `on_its_way` or `taken`. `gone`: a cause that was removed.",
    }),
    subject: z.string().nullable(),
    at: timestamp.nullable().meta({ description: "When the node was accepted, emitted or captured; null for a removed node." }),
    cause: z.string().nullable().meta({ description: "The node that caused this node (the edge). Null if the cause is not in the job." }),
    causation_id: z.string().nullable().meta({ description: "The cause as named in the message." }),
    from_instance: z
      .string()
      .nullable()
      .meta({ description: "The instance that emitted the message, or the message that led to the instance." }),
    step: z.string().nullable().meta({ description: "The step that emitted the message." }),
    latency_ms: z
      .int()
      .nullable()
      .meta({ description: "Milliseconds between the cause and the node; for an instance, since its message was created." }),
    leads_to: z
      .array(z.object({ instance_id: z.string(), status: z.enum([...INSTANCE_STATUSES, "pruned"]) }))
      .meta({ description: "For a message: the instances that it started, by its key, including `pruned` ones." }),
  })
  .meta({ id: "JobNode" });

const SummarySchema = z
  .object({
    open: z.boolean().meta({ description: "True while an instance of the job is running." }),
    first_at: timestamp.nullable(),
    last_at: timestamp.nullable(),
    instances: z.array(z.object({ status: z.enum(INSTANCE_STATUSES), workflow: z.string(), message_type: z.string(), count: z.int() })),
    dead_letters: z.array(z.object({ state: z.string(), count: z.int() })),
    more: z
      .boolean()
      .meta({ description: "True if the job has more instances or messages than the first 10,000 of each, which are counted." }),
  })
  .meta({ id: "JobSummary" });

const show = createRoute({
  method: "get",
  path: "/v1/correlations/{id}",
  operationId: "getCorrelation",
  command: "correlations show",
  summary: "Get a job: all its instances and messages",
  description: [
    "Returns a page of the graph: instances in order of acceptance, each with the messages that its steps emitted, and dead letters.",
    "The `cause` of a node is its edge and may be on an earlier page. For an instance with many messages, 20 are listed,",
    "and `collapsed` counts the others by type; GET /v1/instances/{id}/events lists them.",
    "Nodes removed by retention are `gone` as a cause and `pruned` as a result of a message.",
  ].join(" "),
  ...needs("read"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject(pageQuery) },
  responses: {
    200: answers(
      "A page of the job",
      pageOf(NodeSchema).extend({
        id: z.string(),
        summary: SummarySchema.nullable().meta({ description: "Only on the first page." }),
        collapsed: z.array(z.object({ instance_id: z.string(), message_type: z.string(), count: z.int() })),
        elsewhere: z
          .array(z.object({ kind: z.string(), url: z.string() }))
          .meta({ description: "Lists of the app with more items of the job." }),
      }),
    ),
    ...problems("unauthorized", "forbidden", "correlation_not_found", "invalid_payload"),
  },
});

/** Lists of the app with members of a job. Each entry has the kind of the members and the path of the list. */
export type Elsewhere = (job: string) => { kind: string; url: string }[];

export function correlations({ workflows }: Catalog, elsewhere: Elsewhere) {
  return new Routes<HttpEnv>().openapi(show, async (context) => {
    const { id } = context.req.valid("param");
    const { summary, nodes, collapsed, next } = await readJob(context.env, context.var.caller, id, {
      ...context.req.valid("query"),
      workflows,
    });
    const view = {
      id,
      summary: summary ? summaryView(summary) : null,
      items: nodes.map(nodeView),
      collapsed: collapsed.map(({ instanceId, messageType, count }) => ({ instance_id: instanceId, message_type: messageType, count })),
      elsewhere: elsewhere(id),
      next_cursor: next,
    };
    return context.json(view, 200);
  });
}

function summaryView({ instances, deadLetters, more, firstAt, lastAt, isOpen }: JobSummary): z.infer<typeof SummarySchema> {
  return {
    open: isOpen,
    first_at: isoOrNull(firstAt),
    last_at: isoOrNull(lastAt),
    instances: instances.map(({ messageType, ...counted }) => ({ ...counted, message_type: messageType })),
    dead_letters: deadLetters,
    more,
  };
}

function nodeView({ messageType, key, at, causationId, fromInstance, latencyMs, leadsTo, ...node }: JobNode): z.infer<typeof NodeSchema> {
  return {
    ...node,
    message_type: messageType,
    idempotency_key: key,
    at: isoOrNull(at),
    causation_id: causationId,
    from_instance: fromInstance,
    latency_ms: latencyMs,
    leads_to: leadsTo.map(({ instanceId, status }) => ({ instance_id: instanceId, status: status as "pruned" })),
  };
}
