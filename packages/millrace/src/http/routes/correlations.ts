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
    node: z.string().meta({ description: "Names it within the job: `cause` of another says so." }),
    kind: z.enum(["instance", "command", "event", "dead_letter"]),
    message_type: z.string().nullable().meta({ description: "Of an instance, what it was started with." }),
    idempotency_key: z.string().nullable(),
    name: z.string().nullable().meta({ description: "The workflow of an instance, the queue of a dead letter." }),
    status: z.string().meta({
      description: "An instance's or a letter's own; `on_its_way` or `taken` of a message; `gone` for a cause that is not kept any more.",
    }),
    subject: z.string().nullable(),
    at: timestamp.nullable().meta({ description: "Accepted, emitted or captured then; null for what is gone." }),
    cause: z.string().nullable().meta({ description: "The edge: the node that caused it. Null where that was outside." }),
    causation_id: z.string().nullable().meta({ description: "The same as the message says it." }),
    from_instance: z.string().nullable().meta({ description: "The instance that emitted it, or the message that it came of." }),
    step: z.string().nullable().meta({ description: "The step that did." }),
    latency_ms: z.int().nullable().meta({ description: "Milliseconds since its cause: of an instance since its message was made." }),
    leads_to: z
      .array(z.object({ instance_id: z.string(), status: z.enum([...INSTANCE_STATUSES, "pruned"]) }))
      .meta({ description: "Of a message: the instances that it started, as its key says; `pruned` ones too." }),
  })
  .meta({ id: "JobNode" });

const SummarySchema = z
  .object({
    open: z.boolean().meta({ description: "True while an instance of it is under way." }),
    first_at: timestamp.nullable(),
    last_at: timestamp.nullable(),
    instances: z.array(z.object({ status: z.enum(INSTANCE_STATUSES), workflow: z.string(), message_type: z.string(), count: z.int() })),
    dead_letters: z.array(z.object({ state: z.string(), count: z.int() })),
    more: z.boolean().meta({ description: "True where there are more than were counted: the first 10,000 of each." }),
  })
  .meta({ id: "JobSummary" });

const show = createRoute({
  method: "get",
  path: "/v1/correlations/{id}",
  operationId: "getCorrelation",
  summary: "Show a whole job: every instance and message, from causes to effects",
  description: [
    "A page is a graph: instances in the order that they were accepted, each with the messages that its steps emitted, and dead letters among them.",
    "Edges are the `cause` of a node, which may stand on an earlier page. Of an instance that emitted many messages 20 are told,",
    "and `collapsed` counts the others by type: GET /v1/instances/{id}/events lists them.",
    "What retention has removed is `gone` where something names it as its cause, and `pruned` where a message led to it.",
  ].join(" "),
  ...needs("read"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject(pageQuery) },
  responses: {
    200: answers(
      "A page of the job",
      pageOf(NodeSchema).extend({
        id: z.string(),
        summary: SummarySchema.nullable().meta({ description: "On the first page only." }),
        collapsed: z.array(z.object({ instance_id: z.string(), message_type: z.string(), count: z.int() })),
        elsewhere: z
          .array(z.object({ kind: z.string(), url: z.string() }))
          .meta({ description: "Lists of the app's own that hold more of the job." }),
      }),
    ),
    ...problems("unauthorized", "forbidden", "correlation_not_found", "invalid_payload"),
  },
});

/** Lists of an app's own that hold members of a job: the kind, and the path of the list. */
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
