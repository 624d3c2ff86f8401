import * as z from "zod";
import type { Hide } from "../../contract/hide.ts";
import { KNOWN_NAMES } from "../../contract/known-fields.ts";
import { hiddenIn, redacted, rowOf } from "../../contract/row.ts";
import { labelOf } from "../../contract/step-names.ts";
import { Answers } from "../../inspect/answers.ts";
import { Delivery } from "../../inspect/delivery.ts";
import { AnsweredEffect, Doubt, ShownFailure } from "../../inspect/effects.ts";
import { describeInstance, type InstanceDetail } from "../../inspect/instance-detail.ts";
import { countInstances, type Instance, listInstances, StepProgress } from "../../inspect/instances.ts";
import { type Redaction, redactionOf } from "../../inspect/redaction.ts";
import { MAX_WAIT_S, untilSettled } from "../../inspect/settled.ts";
import { STANDINGS } from "../../inspect/standing.ts";
import { INSTANCE_STATUSES } from "../../store/instances/status.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import { CostSchema, costView } from "../cost.ts";
import type { HttpEnv } from "../env.ts";
import { refuseUnknownNames } from "../known-names.ts";
import { page, pageOf, pageQuery, wholeNumber } from "../paging.ts";
import { problems } from "../problem.ts";
import { asksToReveal, redactionFor, revealQuery } from "../redaction.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
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
      .meta({ description: "The number of deliveries of its message. Deliveries after the first are duplicates without effect." }),
    step: z.string().nullable().meta({
      description: "The step with an effect that wrote last, or the failed step if none has written. For waiting steps see `waiting_for`.",
    }),
    waiting_for: z
      .array(
        z.object({
          step: z.string().meta({ description: "The step name in the code, followed by the key of an item in brackets." }),
          event_type: z.string().nullable().meta({ description: "For an event: its type, such as `order.paid`." }),
          subject: z.string().nullable().meta({ description: "For an event: its required subject." }),
          approval_id: z.string().nullable().meta({ description: "For a question: `POST /v1/approvals/{id}/approve` or `/reject`." }),
          until: timestamp
            .nullable()
            .meta({ description: "When the wait ends. Null for a wait that started before this time was recorded." }),
        }),
      )
      .max(20)
      .meta({ description: "Awaited events and answers, at most 20. For a sleep see `sleeping`." }),
    held: z.string().nullable().meta({
      description: "The pause of the workflow or queue that keeps the instance from starting, with its actor and reason. Null otherwise.",
    }),
    retrying: z
      .object({
        step: z.string(),
        attempt: z.int().meta({ description: "The number of the failed attempt, starting at 1." }),
        next_at: timestamp
          .nullable()
          .meta({ description: "When the next attempt starts; null in a list, because only the platform knows this time." }),
        error: z.string().meta({ description: "The error message.", ...redacted }),
      })
      .nullable()
      .meta({
        description:
          "The step that waits for its next attempt after a failure; the first if there are several. A list has it only for `lookup` and `once` steps, because the other classes record nothing before they are done.",
      }),
    sleeping: z.object({ step: z.string().nullable(), until: timestamp.nullable() }).nullable().meta({
      description:
        "A sleeping step. In a list, a sleep (or a long back-off) appears about 30 s later, when the keeper has asked the platform, without the step and the end.",
    }),
    due_at: timestamp.nullable().meta({
      description: "When a delayed command is due; until then the status is `accepted`. Null without a delay.",
    }),
    must_end_by: timestamp.nullable().meta({ description: "The deadline; null without one." }),
    overdue: z
      .boolean()
      .meta({ description: "True if the deadline has passed and the instance is still running. It is not stopped automatically." }),
    error: ShownFailure.nullable().meta(redacted),
    tags: z.array(z.string()).meta({ description: "The tags of its command.", examples: [["customer:acme"]] }),
    progress: StepProgress.nullable().meta({
      description: "The last progress that a step of this run reported; null without a report.",
    }),
    undo: z.enum(["open", "done"]).nullable().meta({
      description:
        "`open` during an undo, also after the undo failed; `done` after it. A close keeps the value. A retry resets it to null.",
    }),
    accepted_at: timestamp,
    updated_at: timestamp,
  })
  .meta({ id: "Instance" });

const CalledEndSchema = z.object({ run: z.int(), status: z.string() });

const InstanceDetailSchema = InstanceSchema.extend({
  platform_status: z.string().meta({ description: "The status on the platform; `unknown` if the platform has no such instance." }),
  payload: z.unknown().meta({ description: "The payload as sent; null if it is stored by reference." }),
  payload_ref: z.string().nullable().meta({ description: "The location of a large payload." }),
  result: z.unknown().meta({ description: "The return value of a complete run; null without one, and after the platform has removed it." }),
  result_changed: z.string().nullable().meta({
    description: "For a result that is not plain data, such as a Map: the changes made by the conversion to JSON. Null otherwise.",
  }),
  doubts: z
    .array(
      z.object({
        step: z.string().meta({ description: "The step name in the code, followed by the key of an item in brackets." }),
        effect: z.string().meta({ description: "The effect's key." }),
        since: timestamp,
        why: z.string().nullable().meta({ description: "The error of the last attempt." }),
        confirm: z.string().meta({ description: "The path of the POST that confirms that the effect happened, with its `output`." }),
        reject: z.string().nullable().meta({
          description: "The path of the POST if the effect did not happen. Null if the effect is known to have happened.",
        }),
        retry: z.string().nullable().meta({
          description: "The path to run the effect again if its outcome stays unknown; it may happen twice. Null if this is refused.",
        }),
        answered: AnsweredEffect.nullable(),
        follows: Answers,
      }),
    )
    .meta({ description: "Effects with an unknown outcome. An `in_doubt` instance continues after an operator has decided them." }),
  callback: z
    .object({
      url: z.string(),
      called: CalledEndSchema.nullable().meta({
        description: "The end of the instance that the last call reports; null before the first call.",
      }),
      told: CalledEndSchema.nullable().meta({ description: "The end that the address has accepted; null until then." }),
      delivery: Delivery.nullable().meta({
        description: "The delivery of that call; null before the first call, and after retention removed its instance.",
      }),
    })
    .nullable()
    .meta({ description: "The callback URL of the command, called at each end." }),
  cost: CostSchema,
}).meta({ id: "InstanceDetail" });

const list = createRoute({
  method: "get",
  path: "/v1/instances",
  operationId: "listInstances",
  command: "instances list",
  summary: "List instances, newest first",
  description:
    "A page filtered by `workflow` or `subject` scans 50,000 instances. It may be short or empty and still have a `next_cursor`. Use `correlation` for all instances of a job.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      status: z.enum(INSTANCE_STATUSES).optional(),
      standing: z.enum(STANDINGS).optional().meta({
        description:
          "Only running instances that are delayed (`due_at` in the future), retrying, sleeping or waiting, as far as a list has this. The field with that name has the details.",
      }),
      workflow: z.string().optional().meta({ description: KNOWN_NAMES }),
      subject: z.string().optional(),
      correlation: z.string().optional(),
      tag: z.string().optional().meta({ description: "Instances with this tag." }),
      cause: z.string().optional().meta({ description: "An `id` of `/v1/instances/causes`: errored instances of this cause." }),
      overdue: z.enum(["true"]).optional().meta({
        description: "Only running instances past their `must_end_by`, most recent deadline first.",
      }),
      since: z.iso.datetime({ offset: true }).optional().meta({ description: "Accepted at or after this time." }),
      ...pageQuery,
    }),
  },
  responses: {
    200: answers("A page of instances", pageOf(InstanceSchema)),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const counts = createRoute({
  method: "get",
  path: "/v1/instances/counts",
  operationId: "countInstances",
  command: "instances counts",
  summary: "Count instances by status",
  description: "A count is exact up to 1,000. It reads the newest 2,000 rows of the status; a filter can match more in older rows.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      workflow: z.string().optional().meta({ description: KNOWN_NAMES }),
      subject: z.string().optional(),
      correlation: z.string().optional(),
      since: z.iso.datetime({ offset: true }).optional().meta({ description: "Accepted at or after this time." }),
    }),
  },
  responses: {
    200: answers(
      "Each status with its count",
      z.object({
        items: z.array(
          z
            .object({
              status: z.enum(INSTANCE_STATUSES),
              count: z.int().max(1000),
              more: z.boolean().meta({ description: "True if there are, or may be, more than `count`." }),
            })
            .meta({ id: "StatusCount" }),
        ),
      }),
    ),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const show = createRoute({
  method: "get",
  path: "/v1/instances/{id}",
  operationId: "getInstance",
  command: "instances show",
  summary: "Get an instance with its payload, result and platform status",
  description:
    "With `wait`, the answer is delayed until the instance has ended or needs an operator (an unknown outcome or a question), or until the seconds have passed; check `status`. Sleeps, event waits and back-offs do not end the wait.",
  ...needs("read"),
  request: {
    params: z.object({ id: z.string() }),
    query: z.strictObject({
      ...revealQuery,
      wait: wholeNumber(0, MAX_WAIT_S).default(0).meta({
        type: "integer",
        minimum: 0,
        maximum: MAX_WAIT_S,
        default: 0,
        description: "Seconds to wait for the end of the instance.",
      }),
    }),
  },
  responses: {
    200: answers("The instance", InstanceDetailSchema),
    ...problems("unauthorized", "forbidden", "instance_not_found", "invalid_payload"),
  },
});

export function instances(catalog: Catalog) {
  const known = catalog.workflows.map(({ name }) => name);
  return new Routes<HttpEnv>()
    .openapi(counts, async (context) => {
      const { since, ...filter } = context.req.valid("query");
      const items = await countInstances(context.env, context.var.caller, { ...filter, since: since ? Date.parse(since) : undefined });
      const there = { items: items.filter(({ count }) => count > 0), next: null };
      refuseUnknownNames(there, { workflow: { name: filter.workflow, known } });
      return context.json({ items }, 200);
    })
    .openapi(list, async (context) => {
      const { since, overdue, ...filter } = context.req.valid("query");
      const asked = { ...filter, since: since ? Date.parse(since) : undefined, overdue: overdue === "true" };
      const found = await listInstances(context.env, context.var.caller, asked);
      refuseUnknownNames(found, { workflow: { name: filter.workflow, known } }, filter.cursor);
      const telling = found.items.filter(({ error, retrying, progress }) => error !== null || retrying !== null || progress.length > 0);
      const hide = await redactionOf(catalog).ofInstances(
        context.env,
        context.var.caller,
        telling.map(({ id }) => id),
      );
      return context.json(
        page(found, (one) => instanceView(one, hide(one.id))),
        200,
      );
    })
    .openapi(show, async (context) => {
      const { env, req, var: variables } = context;
      const { id } = req.valid("param");
      const { wait } = req.valid("query");
      // Checks the scope for revealed fields before the wait.
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
    callback,
    cost: costView(cost),
  };
}

function doubtView(doubt: InstanceDetail["doubts"][number], hide: Hide): z.infer<typeof InstanceDetailSchema>["doubts"][number] {
  const { key, step, item, updated_at, error, answered, follows } = hiddenIn(Doubt, doubt, hide);
  return {
    step: labelOf(step, item),
    effect: key,
    since: updated_at,
    why: error?.message ?? null,
    confirm: `/v1/effects/${key}/confirm`,
    reject: follows.reject && `/v1/effects/${key}/reject`,
    retry: follows.retry && `/v1/effects/${key}/retry`,
    answered,
    follows,
  };
}

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
    held: instance.held,
    retrying: hide(retryingView(instance.retrying)),
    sleeping: instance.sleeping && { step: instance.sleeping.step, until: isoOrNull(instance.sleeping.until) },
    due_at: isoOrNull(instance.dueAt),
    must_end_by: isoOrNull(instance.mustEndBy),
    overdue: instance.overdue,
    error: hide(instance.error && rowOf(ShownFailure, instance.error)),
    tags: instance.tags,
    progress: progressView(instance.progress.at(-1) ?? null, hide),
    undo: instance.undo === null ? null : instance.undone ? "done" : "open",
    accepted_at: iso(instance.acceptedAt),
    updated_at: iso(instance.updatedAt),
  };
}

export function progressView(progress: StepProgress | null, hide: Hide): z.infer<typeof StepProgress> | null {
  return progress && hiddenIn(StepProgress, rowOf(StepProgress, progress), hide);
}

function retryingView(retrying: Instance["retrying"]): z.infer<typeof InstanceSchema>["retrying"] {
  if (retrying === null) return null;
  const { step, attempt, nextAt, error } = retrying;
  return { step, attempt, next_at: isoOrNull(nextAt), error };
}
