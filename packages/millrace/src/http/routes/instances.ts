import * as z from "zod";
import type { Hide } from "../../contract/hide.ts";
import { describeInstance, type InstanceDetail } from "../../inspect/instance-detail.ts";
import { type Instance, listInstances } from "../../inspect/instances.ts";
import { type Redaction, redactionOf } from "../../inspect/redaction.ts";
import { MAX_WAIT_S, untilSettled } from "../../inspect/settled.ts";
import { STANDINGS } from "../../inspect/standing.ts";
import { INSTANCE_STATUSES } from "../../store/instances/status.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import { CostSchema, costView } from "../cost.ts";
import { DeliverySchema, deliveryView } from "../delivery.ts";
import type { HttpEnv } from "../env.ts";
import { FailureSchema, failureView } from "../failure.ts";
import { KNOWN_NAMES, refuseUnknownNames } from "../known-names.ts";
import { page, pageOf, pageQuery, wholeNumber } from "../paging.ts";
import { problems } from "../problem.ts";
import { asksToReveal, redactionFor, revealQuery } from "../redaction.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";
import { AnsweredSchema, answeredView, FollowsSchema } from "./effects.ts";

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
    deliveries: z.int().meta({ description: "How often its message was delivered: more than once is a duplicate that changed nothing." }),
    step: z.string().nullable().meta({
      description: "The guarded step that wrote last, or the one it failed at where none has: not the one that waits, see `waiting_for`.",
    }),
    waiting_for: z
      .array(
        z.object({
          step: z.string().meta({ description: "The step's name in the code; behind it in brackets the key of an item." }),
          event_type: z.string().nullable().meta({ description: "For an event: its type, such as `order.paid`." }),
          subject: z.string().nullable().meta({ description: "For an event: what it has to be about." }),
          approval_id: z.string().nullable().meta({ description: "For a question: `POST /v1/approvals/{id}/approve` or `/reject`." }),
          until: timestamp.nullable().meta({ description: "Null for a wait that began before this was noted." }),
        }),
      )
      .max(20)
      .meta({ description: "Events and answers that it waits for, 20 at most. A sleep is none, see `sleeping`." }),
    retrying: z
      .object({
        step: z.string(),
        attempt: z.int().meta({ description: "The attempt that failed, 1-based." }),
        next_at: timestamp.nullable().meta({ description: "When the next one is made; null in a list, where only the platform knows." }),
        error: z.string().meta({ description: "What it failed of." }),
      })
      .nullable()
      .meta({
        description:
          "A step whose last attempt failed, and that is tried again; of several the one that comes first. A list knows of it only where a `lookup` or `once` step has failed: the other classes write nothing before they are done.",
      }),
    sleeping: z.object({ step: z.string().nullable(), until: timestamp.nullable() }).nullable().meta({
      description:
        "A step that only time ends. A list knows that something sleeps (or is in a long back-off) once the keeper has asked the platform, some half a minute later, and neither which step nor until when.",
    }),
    due_at: timestamp.nullable().meta({
      description: "When a delayed command is due: until then it is `accepted`. Null for a command without a delay.",
    }),
    must_end_by: timestamp.nullable().meta({ description: "By when it is to have ended; null where nobody said." }),
    overdue: z
      .boolean()
      .meta({ description: "That time is over, and it is still under way. Nothing ends it: that is somebody's to decide." }),
    error: FailureSchema.nullable(),
    undo: z.enum(["open", "done"]).nullable().meta({
      description:
        "`open` while it is being undone, also when that has failed; `done` once it is undone. A close keeps either. Null again when it is retried.",
    }),
    accepted_at: timestamp,
    updated_at: timestamp,
  })
  .meta({ id: "Instance" });

const CalledEndSchema = z.object({ run: z.int(), status: z.string() });

const InstanceDetailSchema = InstanceSchema.extend({
  platform_status: z.string().meta({ description: "What the platform itself says; `unknown` when it has no such instance." }),
  payload: z.unknown().meta({ description: "What was asked, as it was sent; null where it travels by reference." }),
  payload_ref: z.string().nullable().meta({ description: "Where a payload is kept that is too large to travel." }),
  result: z.unknown().meta({ description: "What a complete run returned; null for nothing, and once the platform has forgotten it." }),
  result_changed: z.string().nullable().meta({
    description: "Of a result that is no plain data, such as a Map: what JSON changed of it or left out, in a sentence. Null otherwise.",
  }),
  doubts: z
    .array(
      z.object({
        step: z.string().meta({ description: "The step's name in the code; behind it in brackets the key of an item." }),
        effect: z.string().meta({ description: "The effect's key." }),
        since: timestamp,
        why: z.string().nullable().meta({ description: "What its last attempt failed of." }),
        confirm: z.string().meta({ description: "The path to POST to where it happened, with the `output` that it answered." }),
        reject: z.string().nullable().meta({
          description: "Where it did not happen. Null where that would be refused: it is known to have happened.",
        }),
        retry: z.string().nullable().meta({
          description: "Where nobody can tell: it is done again, and may happen twice. Null where that would be refused.",
        }),
        answered: AnsweredSchema.nullable(),
        follows: FollowsSchema,
      }),
    )
    .meta({ description: "Effects of which a person has to say whether they happened: an instance `in_doubt` goes on once they have." }),
  callback: z
    .object({
      url: z.string(),
      called: CalledEndSchema.nullable().meta({ description: "The end that the last call is about; null before there is one." }),
      told: CalledEndSchema.nullable().meta({ description: "The same, once the address has accepted that call; null until then." }),
      delivery: DeliverySchema.nullable().meta({
        description: "That call; null before there is one, and where its instance was removed by its age.",
      }),
    })
    .nullable()
    .meta({ description: "The address that its command has named, to be called at its ends." }),
  cost: CostSchema,
}).meta({ id: "InstanceDetail" });

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
      standing: z.enum(STANDINGS).optional().meta({
        description:
          "Only instances under way that are delayed (`due_at` is to come), retry, sleep or wait, as far as a list knows: the field of that name has the details.",
      }),
      workflow: z.string().optional().meta({ description: KNOWN_NAMES }),
      subject: z.string().optional(),
      correlation: z.string().optional(),
      cause: z.string().optional().meta({ description: "An `id` of `/v1/instances/causes`: instances that are errored." }),
      overdue: z.enum(["true"]).optional().meta({
        description: "Only what is past its `must_end_by` and still under way; the one whose time was over last comes first.",
      }),
      since: z.iso.datetime({ offset: true }).optional().meta({ description: "Accepted then or later." }),
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
  description:
    "With `wait` the answer is held until the instance does not go on by itself, or the seconds are over: its `status` says which. It is over, or a person has to answer its doubt or its question. A sleep, an event and a back-off are waited through.",
  ...needs("read"),
  request: {
    params: z.object({ id: z.string() }),
    query: z.strictObject({
      ...revealQuery,
      wait: wholeNumber(0, MAX_WAIT_S)
        .default(0)
        .meta({ type: "integer", minimum: 0, maximum: MAX_WAIT_S, default: 0, description: "Seconds to wait for its end." }),
    }),
  },
  responses: {
    200: answers("The instance", InstanceDetailSchema),
    ...problems("unauthorized", "forbidden", "instance_not_found", "invalid_payload"),
  },
});

export function instances(catalog: Catalog) {
  return new Routes<HttpEnv>()
    .openapi(list, async (context) => {
      const { since, overdue, ...filter } = context.req.valid("query");
      const asked = { ...filter, since: since ? Date.parse(since) : undefined, overdue: overdue === "true" };
      const found = await listInstances(context.env, context.var.caller, asked);
      refuseUnknownNames(found, { workflow: { name: filter.workflow, known: catalog.workflows.map(({ name }) => name) } }, filter.cursor);
      const failed = found.items.filter(({ error, retrying }) => error !== null || retrying !== null).map(({ id }) => id);
      const hide = await redactionOf(catalog).ofInstances(context.env, context.var.caller, failed);
      return context.json(
        page(found, (one) => instanceView(one, hide(one.id))),
        200,
      );
    })
    .openapi(show, async (context) => {
      const { env, req, var: variables } = context;
      const { id } = req.valid("param");
      const { wait } = req.valid("query");
      // Who may not is told so before anything is waited for.
      asksToReveal(context);
      if (wait > 0) await untilSettled(env, variables.caller, id, wait * 1000, req.raw.signal);
      const instance = await describeInstance(env, variables.caller, id, catalog);
      const redaction = await redactionFor(context, catalog);
      const hide = (await redaction.ofInstances(env, variables.caller, [id]))(id);
      return context.json(detailView(instance, redaction, hide), 200);
    });
}

function detailView(instance: InstanceDetail, redaction: Redaction, hide: Hide): z.infer<typeof InstanceDetailSchema> {
  const { messageType, schemaVersion, payload, payloadRef, platformStatus, result, resultChanged, doubts, callback, cost } = instance;
  return {
    ...instanceView(instance, hide),
    platform_status: platformStatus,
    payload: redaction.payload({ message_type: messageType, schema_version: schemaVersion }, payload),
    payload_ref: payloadRef,
    result: hide(result),
    result_changed: resultChanged,
    doubts: doubts.map((doubt) => doubtView(doubt, hide)),
    callback: callback && { ...callback, delivery: callback.delivery && deliveryView(callback.delivery) },
    cost: costView(cost),
  };
}

function doubtView(doubt: InstanceDetail["doubts"][number], hide: Hide): z.infer<typeof InstanceDetailSchema>["doubts"][number] {
  const { key, label, updatedAt, error, follows } = doubt;
  return {
    step: label,
    effect: key,
    since: iso(updatedAt),
    why: hide(error?.message ?? null),
    confirm: `/v1/effects/${key}/confirm`,
    reject: follows.reject && `/v1/effects/${key}/reject`,
    retry: follows.retry && `/v1/effects/${key}/retry`,
    answered: answeredView(doubt, hide),
    follows,
  };
}

/** An instance as a list has it. */
export function instanceView(instance: Instance, hide: Hide): z.infer<typeof InstanceSchema> {
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
    retrying: hide(retryingView(instance.retrying)),
    sleeping: instance.sleeping && { step: instance.sleeping.step, until: isoOrNull(instance.sleeping.until) },
    due_at: isoOrNull(instance.dueAt),
    must_end_by: isoOrNull(instance.mustEndBy),
    overdue: instance.overdue,
    error: hide(failureView(instance.error)),
    undo: instance.undo === null ? null : instance.undone ? "done" : "open",
    accepted_at: iso(instance.acceptedAt),
    updated_at: iso(instance.updatedAt),
  };
}

function retryingView(retrying: Instance["retrying"]): z.infer<typeof InstanceSchema>["retrying"] {
  if (retrying === null) return null;
  const { step, attempt, nextAt, error } = retrying;
  return { step, attempt, next_at: isoOrNull(nextAt), error };
}
