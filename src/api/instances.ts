import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import {
  type EmittedMessage,
  effectsOf,
  getInstance,
  historyOf,
  type Instance,
  listInstances,
  messagesOf,
  planRetry,
  platformStatus,
  retryInstance,
} from "../engine/index.ts";
import { needs } from "./auth.ts";
import { jsonBody, readBody } from "./body.ts";
import { EffectSchema, effectView } from "./effects.ts";
import type { ApiEnv } from "./env.ts";
import { FailureSchema, failureView } from "./failure.ts";
import { page, pageOf, pageQuery } from "./paging.ts";
import { problems } from "./problem.ts";
import { reason } from "./reason.ts";
import { StepSchema, stepView } from "./steps.ts";
import { iso, timestamp } from "./time.ts";

const STATUSES = [
  "accepted",
  "queued",
  "running",
  "waiting",
  "paused",
  "in_doubt",
  "complete",
  "errored",
  "terminated",
  "dead",
  "skipped",
] as const;

const InstanceSchema = z
  .object({
    id: z.string(),
    workflow: z.string(),
    status: z.string().openapi({ description: STATUSES.map((status) => `\`${status}\``).join(", ") }),
    message_type: z.string(),
    idempotency_key: z.string(),
    correlation_id: z.string(),
    causation_id: z.string(),
    subject: z.string(),
    deliveries: z
      .int()
      .openapi({ description: "How often its message was delivered: more than once is a duplicate that changed nothing." }),
    step: z.string().nullable().openapi({ description: "The last guarded step that wrote something." }),
    error: FailureSchema.nullable(),
    accepted_at: timestamp,
    updated_at: timestamp,
  })
  .openapi("Instance");

const InstanceDetailSchema = InstanceSchema.extend({
  platform_status: z.string().openapi({ description: "What the platform itself says; `unknown` when it has no such instance." }),
}).openapi("InstanceDetail");

const EventSchema = z
  .looseObject({
    step: z.string(),
    confirmed: z.boolean().openapi({ description: "True once its consumer has taken it." }),
    message_type: z.string(),
    kind: z.enum(["command", "event"]),
    correlation_id: z.string(),
    causation_id: z.string(),
    idempotency_key: z.string(),
    subject: z.string(),
    created_at: timestamp,
  })
  .openapi("EmittedMessage");

const PlanSchema = z
  .object({
    from: z.string().nullable(),
    effects: z.array(z.object({ step: z.string(), item: z.string(), verdict: z.enum(["kept", "runs", "in_doubt"]) })),
  })
  .openapi("RetryPlan");

const retrySchema = z.strictObject({
  from: z.string().min(1).max(256).optional().meta({ description: "The step to start from; default the one that failed." }),
  reason,
  dry_run: z.boolean().default(false).meta({ description: "True only says what would happen." }),
});

const params = z.object({ id: z.string() });
const json = <Schema extends z.ZodType>(schema: Schema) => ({ "application/json": { schema } });
const one = problems("unauthorized", "forbidden", "instance_not_found");

const list = createRoute({
  method: "get",
  path: "/",
  summary: "List instances, newest first",
  ...needs("read"),
  request: {
    query: z.strictObject({
      status: z.enum(STATUSES).optional(),
      workflow: z.string().optional(),
      subject: z.string().optional(),
      correlation: z.string().optional(),
      since: z.iso.datetime({ offset: true }).optional().openapi({ description: "Accepted then or later.", format: "date-time" }),
      ...pageQuery,
    }),
  },
  responses: {
    200: { description: "A page of instances", content: json(pageOf(InstanceSchema)) },
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const show = createRoute({
  method: "get",
  path: "/{id}",
  summary: "Show an instance, and what the platform says of it",
  ...needs("read"),
  request: { params },
  responses: { 200: { description: "The instance", content: json(InstanceDetailSchema) }, ...one },
});

const steps = createRoute({
  method: "get",
  path: "/{id}/steps",
  summary: "List its steps with their attempts, sleeps and waits, as the platform remembers them",
  ...needs("read"),
  request: { params },
  responses: {
    200: {
      description: "Its steps, oldest first",
      content: json(
        z.object({
          items: z.array(StepSchema),
          truncated: z.boolean().openapi({ description: "True when the platform had more to tell than this answer takes." }),
        }),
      ),
    },
    ...one,
  },
});

const effects = createRoute({
  method: "get",
  path: "/{id}/effects",
  summary: "List its guarded effects, in the order of its steps",
  ...needs("read"),
  request: { params },
  responses: { 200: { description: "Its effects", content: json(z.object({ items: z.array(EffectSchema) })) }, ...one },
});

const events = createRoute({
  method: "get",
  path: "/{id}/events",
  summary: "List the messages its steps emitted",
  ...needs("read"),
  request: {
    params,
    query: z.strictObject({ payload: z.enum(["true", "false"]).default("false").openapi({ description: "True shows payloads too." }) }),
  },
  responses: {
    200: { description: "Its messages", content: json(z.object({ items: z.array(EventSchema) })) },
    ...problems("unauthorized", "forbidden", "instance_not_found", "invalid_payload"),
  },
});

const retry = createRoute({
  method: "post",
  path: "/{id}/retry",
  summary: "Retry an errored or terminated instance",
  description: "Recorded effects are kept, whatever step it starts from. A dry run says which would run and which are in doubt.",
  ...needs("operate"),
  request: { params, body: jsonBody(retrySchema) },
  responses: {
    200: { description: "A dry run: what a retry would do", content: json(PlanSchema) },
    202: { description: "It runs again", content: json(z.object({ action_id: z.string(), from: z.string().nullable() })) },
    ...problems(
      "invalid_json",
      "unauthorized",
      "forbidden",
      "instance_not_found",
      "invalid_transition",
      "payload_too_large",
      "unsupported_media_type",
      "invalid_payload",
    ),
  },
});

export function instances() {
  return new OpenAPIHono<ApiEnv>()
    .openapi(list, async (context) => {
      const { since, ...filter } = context.req.valid("query");
      const found = await listInstances(context.env, context.var.caller, { ...filter, since: since ? Date.parse(since) : undefined });
      return context.json(page(found, instanceView), 200);
    })
    .openapi(show, async (context) => {
      const instance = await getInstance(context.env, context.var.caller, context.req.valid("param").id);
      return context.json({ ...instanceView(instance), platform_status: await platformStatus(context.env, instance) }, 200);
    })
    .openapi(steps, async (context) => {
      const instance = await getInstance(context.env, context.var.caller, context.req.valid("param").id);
      const history = await historyOf(context.env, instance);
      return context.json({ items: history.steps.map(stepView), truncated: history.truncated }, 200);
    })
    .openapi(effects, async (context) => {
      const { id } = await getInstance(context.env, context.var.caller, context.req.valid("param").id);
      return context.json({ items: (await effectsOf(context.env, context.var.caller, id)).map(effectView) }, 200);
    })
    .openapi(events, async (context) => {
      const { id } = await getInstance(context.env, context.var.caller, context.req.valid("param").id);
      const withPayload = context.req.valid("query").payload === "true";
      const messages = await messagesOf(context.env, context.var.caller, id);
      return context.json({ items: messages.map((message) => eventView(message, withPayload)) }, 200);
    })
    .openapi(retry, async (context) => {
      const { id } = context.req.valid("param");
      const { from, reason, dry_run } = await readBody(context.req, retrySchema);
      if (dry_run) return context.json(await planRetry(context.env, context.var.caller, id, from), 200);
      const done = await retryInstance(context.env, context.var.caller, id, { from, reason });
      return context.json({ action_id: done.actionId, from: done.from }, 202);
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
    error: failureView(instance.error),
    accepted_at: iso(instance.acceptedAt),
    updated_at: iso(instance.updatedAt),
  };
}

function eventView({ step, confirmed, envelope }: EmittedMessage, withPayload: boolean): z.infer<typeof EventSchema> {
  const { payload_inline, payload_ref, ...rest } = envelope;
  return { step, confirmed, ...rest, ...(withPayload && { payload_inline, payload_ref }) };
}
