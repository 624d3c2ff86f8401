import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { describeInstance, type Instance, listInstances } from "../../inspect/instances.ts";
import { INSTANCE_STATUSES } from "../../store/instances/status.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import { CostSchema, costView } from "../cost.ts";
import type { HttpEnv } from "../env.ts";
import { FailureSchema, failureView } from "../failure.ts";
import { KNOWN_NAMES, refuseUnknownNames } from "../known-names.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const InstanceSchema = z
  .object({
    id: z.string(),
    workflow: z.string(),
    status: z.enum(INSTANCE_STATUSES),
    message_type: z.string(),
    idempotency_key: z.string(),
    correlation_id: z.string(),
    causation_id: z.string(),
    subject: z.string(),
    deliveries: z
      .int()
      .openapi({ description: "How often its message was delivered: more than once is a duplicate that changed nothing." }),
    step: z.string().nullable().openapi({ description: "The guarded step that wrote last: not the one that waits, see `waiting_for`." }),
    waiting_for: z
      .array(
        z.object({
          step: z.string().openapi({ description: "The step's name in the code; behind it in brackets the key of an item." }),
          event_type: z.string().nullable().openapi({ description: "For an event: its type, such as `order.paid`." }),
          subject: z.string().nullable().openapi({ description: "For an event: what it has to be about." }),
          approval_id: z.string().nullable().openapi({ description: "For a question: `POST /v1/approvals/{id}/approve` or `/reject`." }),
          until: timestamp.nullable().openapi({ description: "Null for a wait that began before this was noted." }),
        }),
      )
      .max(20)
      .openapi({ description: "Events and answers that it waits for, 20 at most. A sleep is none: `/steps` shows it." }),
    error: FailureSchema.nullable(),
    undo: z.enum(["open", "done"]).nullable().openapi({
      description: "`open` while it is being undone, also when that has failed; `done` once it is undone; null again when it is retried.",
    }),
    accepted_at: timestamp,
    updated_at: timestamp,
  })
  .openapi("Instance");

const InstanceDetailSchema = InstanceSchema.extend({
  platform_status: z.string().openapi({ description: "What the platform itself says; `unknown` when it has no such instance." }),
  payload: z.unknown().openapi({ description: "What was asked, as it was sent; null where it travels by reference." }),
  payload_ref: z.string().nullable().openapi({ description: "Where a payload is kept that is too large to travel." }),
  result: z.unknown().openapi({ description: "What a complete run returned; null for nothing, and once the platform has forgotten it." }),
  result_changed: z.string().nullable().openapi({
    description: "Of a result that is no plain data, such as a Map: what JSON changed of it or left out, in a sentence. Null otherwise.",
  }),
  cost: CostSchema,
}).openapi("InstanceDetail");

const list = createRoute({
  method: "get",
  path: "/v1/instances",
  operationId: "listInstances",
  summary: "List instances, newest first",
  description:
    "By `workflow` or `subject` a page looks at 50,000 instances: it may be short, or empty, and still have a `next_cursor`. All of a job is found by `correlation`.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      status: z.enum(INSTANCE_STATUSES).optional(),
      workflow: z.string().optional().openapi({ description: KNOWN_NAMES }),
      subject: z.string().optional(),
      correlation: z.string().optional(),
      since: z.iso.datetime({ offset: true }).optional().openapi({ description: "Accepted then or later." }),
      ...pageQuery,
    }),
  },
  responses: {
    200: answers("A page of instances", pageOf(InstanceSchema)),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const show = createRoute({
  method: "get",
  path: "/v1/instances/{id}",
  operationId: "getInstance",
  summary: "Show an instance: what was asked, what came of it, and what the platform says of it",
  ...needs("read"),
  request: { params: z.object({ id: z.string() }) },
  responses: {
    200: answers("The instance", InstanceDetailSchema),
    ...problems("unauthorized", "forbidden", "instance_not_found"),
  },
});

export function instances(catalog: Catalog) {
  return new OpenAPIHono<HttpEnv>()
    .openapi(list, async (context) => {
      const { since, ...filter } = context.req.valid("query");
      const found = await listInstances(context.env, context.var.caller, { ...filter, since: since ? Date.parse(since) : undefined });
      refuseUnknownNames(found, { workflow: { name: filter.workflow, known: catalog.workflows.map(({ name }) => name) } });
      return context.json(page(found, instanceView), 200);
    })
    .openapi(show, async (context) => {
      const instance = await describeInstance(context.env, context.var.caller, context.req.valid("param").id);
      const { payload, payloadRef, platformStatus, result, resultChanged } = instance;
      const whole = { ...instanceView(instance), payload, payload_ref: payloadRef, result, platform_status: platformStatus };
      return context.json({ ...whole, result_changed: resultChanged, cost: costView(instance.cost) }, 200);
    });
}

function instanceView(instance: Instance): z.infer<typeof InstanceSchema> {
  return {
    id: instance.id,
    workflow: instance.workflow,
    status: instance.status,
    message_type: instance.messageType,
    idempotency_key: instance.idempotencyKey,
    correlation_id: instance.correlationId,
    causation_id: instance.causationId,
    subject: instance.subject,
    deliveries: instance.deliveries,
    step: instance.step,
    waiting_for: instance.waitingFor.map(({ step, eventType, subject, approvalId, until }) => ({
      step,
      event_type: eventType,
      subject,
      approval_id: approvalId,
      until: isoOrNull(until),
    })),
    error: failureView(instance.error),
    undo: instance.undo === null ? null : instance.status === "terminated" ? "done" : "open",
    accepted_at: iso(instance.acceptedAt),
    updated_at: iso(instance.updatedAt),
  };
}
