import type { HonoRequest } from "hono";
import * as z from "zod";
import { assertMayState } from "../../access/may-ask.ts";
import { chosenName } from "../../contract/chosen-name.ts";
import { MillraceError } from "../../contract/errors.ts";
import { INTAKE_LIMITS } from "../../contract/limits.ts";
import { type EventRequest, type Stated, stateEvents } from "../../intake/accept/state.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { BODY_REFUSALS } from "../actions.ts";
import { needs } from "../auth.ts";
import { parseWith, readBody } from "../body.ts";
import {
  CLOUD_EVENT,
  CLOUD_EVENT_BATCH,
  cloudEventHeaders,
  commandOf,
  isCloudEvent,
  isCloudEventBatch,
  orCloudEvent,
  orCloudEvents,
  readCloudEvent,
} from "../cloud-events.ts";
import type { HttpEnv } from "../env.ts";
import { idempotencyKey, keyHeader, MAX_KEY_CHARACTERS, replayedHeader, replayedHeaderSchema } from "../idempotency-key.ts";
import { invalidRequest } from "../invalid-request.ts";
import { answerEach, BATCH_LIMITS, itemResult, readItems, requesterOf } from "../items.ts";
import { notTaken } from "../media-type.ts";
import { ProblemSchema, problems } from "../problem.ts";
import { at, createRoute, Routes } from "../router.ts";
import { traceHeadersSchema, traceOf } from "../trace.ts";

export const eventSchema = z.strictObject({
  type: z
    .string()
    .min(1)
    .max(100)
    .meta({
      description: "The event type, such as `order.delivered`; it must be open to the outside.",
      examples: ["order.delivered"],
    }),
  payload: z.unknown().meta({ description: "The payload, by the schema of the event.", examples: [{ order: "1042" }] }),
  schema_version: z.int().min(1).optional().meta({ description: "The version of the payload. Default: the current one." }),
  correlation_id: chosenName(200)
    .optional()
    .meta({ description: "The correlation id of the job. Default: a new one, the id of the event." }),
  causation_id: chosenName(300).optional().meta({ description: "What caused this." }),
});

const batchItemSchema = eventSchema.extend({
  idempotency_key: chosenName(MAX_KEY_CHARACTERS).meta({ description: "Identifies the event among those of its type." }),
});

const { most, maxBytes } = BATCH_LIMITS;
/** The documented body of a batch of events. Its items are read one by one, so that an invalid item refuses only itself. */
const batchSchema = z.strictObject({ events: z.array(batchItemSchema).min(1).max(BATCH_LIMITS.most) });
const unreadBatchSchema = z.strictObject({ events: z.array(z.unknown()).min(1).max(BATCH_LIMITS.most) });

const statedShape = {
  event_id: z.string().meta({ description: "The id of the event; its results have it as `causation_id`." }),
  replayed: z.boolean().meta({ description: "True for a repeat of an accepted event, which has no effect." }),
  correlation_id: z.string().meta({ description: "List the resulting instances with GET /v1/instances?correlation=." }),
};
const StatedSchema = z.object(statedShape).meta({ id: "Stated" });
const StatedResultSchema = z
  .union([z.object({ status: z.literal(202), ...statedShape }), z.object({ status: z.int(), problem: ProblemSchema })])
  .meta({ id: "StatedResult" });

const stateOne = createRoute({
  ...at("post", "/v1/events", "stateEvent", "events send"),
  summary: "Accept an event",
  description: [
    "Reports an event from outside. 202 means that it is committed. It is then routed like every event: it wakes waiting instances, starts workflows and sends commands. The event has no instance.",
    "`Idempotency-Key` is required and identifies the event among those of its type. A repeat of the key returns the same event, `replayed`. With another payload it is refused.",
    "Accepts only event types declared open (`door`). Tenant and source come from the token, the subject from the payload.",
    "Also accepts CloudEvents 1.0, structured and binary. `data` is the payload. Without the header `Idempotency-Key`, `source` and `id` form the key. The extensions `correlationid`, `causationid`, `traceparent` and `tracestate` are read; `subject` is ignored.",
  ].join("\n\n"),
  ...needs("enqueue"),
  request: {
    headers: z.object({
      ...keyHeader("Identifies the event. Required except for a CloudEvent."),
      ...cloudEventHeaders,
      ...traceHeadersSchema,
    }),
    body: {
      required: true,
      content: orCloudEvent("Event"),
    },
  },
  responses: {
    202: { description: "Taken", headers: replayedHeaderSchema, content: { "application/json": { schema: StatedSchema } } },
    ...problems(...BODY_REFUSALS, "unknown_message_type", "invalid_envelope", "idempotency_key_reused"),
  },
});

const stateMany = createRoute({
  ...at("post", "/v1/events/batch", "stateEvents", "events send-batch"),
  summary: "Accept up to 100 events",
  description:
    "Returns one result per event, in order. Each item has its `idempotency_key`. Also accepts CloudEvents 1.0 in batched mode (`application/cloudevents-batch+json`).",
  ...needs("enqueue"),
  request: {
    headers: z.object(traceHeadersSchema),
    body: { required: true, content: orCloudEvents(batchSchema, BATCH_LIMITS.most) },
  },
  responses: {
    200: {
      description: "One result per event, in order",
      content: { "application/json": { schema: z.object({ results: z.array(StatedResultSchema) }) } },
    },
    ...problems(...BODY_REFUSALS),
  },
});

export function statedEvents(catalog: Catalog) {
  return new Routes<HttpEnv>()
    .openapi(stateOne, async ({ env, req, var: { caller }, json }) => {
      const event = await readEvent(req);
      assertMayState(catalog, caller, event.type);
      const [result] = await stateEvents(env, catalog, requesterOf(caller), [event]);
      if (!result || result instanceof MillraceError) throw result;
      return json(stated(result), 202, replayedHeader(result));
    })
    .openapi(stateMany, async ({ env, req, var: { caller, problems: known }, json }) => {
      const events = await readItems<EventRequest>(req, {
        json: async () => (await readBody(req, unreadBatchSchema, { maxBytes, items: { key: "events", most } })).events,
        read: eventIn,
        assertMay: (type) => assertMayState(catalog, caller, type),
      });
      const answers = await answerEach(events, (asked) => stateEvents(env, catalog, requesterOf(caller), asked));
      return json({ results: answers.map((one) => itemResult(one, known, stated)) }, 200);
    });
}

async function readEvent(request: HonoRequest): Promise<EventRequest> {
  const header = idempotencyKey(request.header("idempotency-key"));
  if (isCloudEventBatch(request))
    throw notTaken(`${CLOUD_EVENT_BATCH}, which goes to POST /v1/events/batch`, "application/json", CLOUD_EVENT);
  if (isCloudEvent(request)) {
    const event = commandOf(await readCloudEvent(request));
    return { ...event, exact: true, idempotencyKey: header ?? event.idempotencyKey, ...traceOf(request) };
  }
  const event = await readBody(request, eventSchema, { maxBytes: INTAKE_LIMITS.maxBytes });
  if (header !== undefined) return { ...asRequest(event), exact: true, idempotencyKey: header, ...traceOf(request) };
  throw invalidRequest([
    {
      path: "Idempotency-Key",
      message: "is missing: send a key for the event, such as the id from its source, so that a repeat is recognized",
    },
  ]);
}

function eventIn(item: unknown): EventRequest {
  const { idempotency_key, ...event } = parseWith(batchItemSchema, item);
  return { ...asRequest(event), idempotencyKey: idempotency_key };
}

function asRequest(event: z.infer<typeof eventSchema>): Omit<EventRequest, "idempotencyKey"> {
  return {
    type: event.type,
    payload: event.payload,
    schemaVersion: event.schema_version,
    correlationId: event.correlation_id,
    causationId: event.causation_id,
  };
}

function stated({ eventId, replayed, correlationId }: Stated): z.infer<typeof StatedSchema> {
  return { event_id: eventId, replayed, correlation_id: correlationId };
}
