import type { HonoRequest } from "hono";
import * as z from "zod";
import { assertMayAsk, assertMayState } from "../../access/may-ask.ts";
import { MAX_ADDRESS_CHARACTERS } from "../../contract/address-guard.ts";
import { chosenName, MAX_KEY_CHARACTERS } from "../../contract/chosen-name.ts";
import { tagsSchema } from "../../contract/envelope.ts";
import { MillraceError } from "../../contract/errors.ts";
import { INTAKE_LIMITS } from "../../contract/limits.ts";
import { MAX_DUE_SECONDS, MAX_RATE_PER_SECOND, staggered } from "../../contract/queue.ts";
import { component } from "../../contract/row.ts";
import { acceptCommand, acceptCommands, PRIORITIES, type UntypedRequest } from "../../intake/accept/enqueue.ts";
import { type EventRequest, publishEvents, type Stated } from "../../intake/accept/publish.ts";
import { acceptedShape, acceptedView, answerAccepted } from "../accepted.ts";
import { parseWith, readBody } from "../body.ts";
import { cloudEventHeaders, messageIn, orCloudEvent, orCloudEvents, orThrow, readCloudEvent, readCloudEvents } from "../cloud-events.ts";
import type { Caller } from "../env.ts";
import { idempotencyKey, traceHeadersSchema, traceOf } from "../headers.ts";
import { type Asked, needs, operation } from "../operation.ts";
import { invalidRequest, ProblemSchema, problemOf } from "../problem.ts";

const messageType = z.string().min(1).max(100);
const schema_version = z.int().min(1).optional().describe("The version of the payload. Default: the current one.");
const causation_id = chosenName(300).optional().describe("What caused this.");

const commandSchema = z.strictObject({
  type: messageType.meta({ description: "The type of the command.", examples: ["order.ship"] }),
  payload: z.unknown().meta({ description: "The payload, by the schema of the command.", examples: [{ order: "1042" }] }),
  delay_seconds: z.int().min(0).max(MAX_DUE_SECONDS).optional().describe("Seconds until the start."),
  run_at: z.iso
    .datetime({ offset: true })
    .optional()
    .describe(
      "The time to start at, instead of a delay: at most 365 days from now (12 hours on a lane), in whole seconds. A past time is no delay.",
    ),
  schema_version,
  correlation_id: chosenName(200).optional().describe("The correlation id of the job. Default: derived by the command, else a new one."),
  causation_id,
  must_end_by: z
    .optional(z.string().max(100))
    .describe(
      "The deadline of the instance: a time with an offset, or a duration from now such as `2 hours`. A deadline more than a minute in the past, or before a delayed command is due, is refused. After the deadline the instance is `overdue` and an alert is raised; it is not stopped. Default: the deadline of the workflow.",
    ),
  callback_url: z
    .optional(z.string().max(MAX_ADDRESS_CHARACTERS))
    .describe(
      "A URL that is called once for each end of the instance (complete, errored, terminated, dead, skipped), signed as a Standard Webhook. A repeat of the command does not change it.",
    ),
  tags: tagsSchema.optional().meta({
    description:
      "Texts by which instances are found, in addition to the tags that the command derives from its payload: at most 10 together.",
    examples: [["customer:acme"]],
  }),
  priority: z
    .optional(z.enum(PRIORITIES))
    .describe("`high` starts before all waiting commands of the queue, `low` after them. Refused if the queue has no priorities."),
});

const eventSchema = z.strictObject({
  type: messageType.meta({
    description: "The event type, such as `order.delivered`; it must be open to the outside.",
    examples: ["order.delivered"],
  }),
  payload: z.unknown().meta({ description: "The payload, by the schema of the event.", examples: [{ order: "1042" }] }),
  schema_version,
  correlation_id: chosenName(200).optional().describe("The correlation id of the job. Default: a new one, the id of the event."),
  causation_id,
});

/** Limits of a batch in one request. A batch is limited because D1 commits its messages as one value of at most 2 MB. */
const BATCH_LIMITS = { most: 100, maxBytes: 1024 * 1024 } as const;

/** The documented body of a batch, and the read one. Its items are parsed singly: an invalid item refuses only itself. */
function batchOf<const Name extends string, More extends z.ZodRawShape>(key: Name, item: z.ZodType, more: More) {
  const of = <Item extends z.ZodType>(one: Item) =>
    z.strictObject({ [key]: z.array(one).min(1).max(BATCH_LIMITS.most), ...more } as Record<Name, z.ZodArray<Item>> & More);
  return { key, item, content: orCloudEvents(of(item), BATCH_LIMITS.most), unread: of(z.unknown()) };
}

const ratePerSecond = z
  .optional(z.number().positive().max(MAX_RATE_PER_SECOND))
  .describe("Commands of this batch that start per second, in list order. Default: all at once.");
const commandBatch = batchOf("commands", commandSchema.extend({ idempotency_key: chosenName(MAX_KEY_CHARACTERS).optional() }), {
  rate_per_second: ratePerSecond,
});
const identified = chosenName(MAX_KEY_CHARACTERS).describe("Identifies the event among those of its type.");
const eventBatch = batchOf("events", eventSchema.extend({ idempotency_key: identified }), {});

const AcceptedSchema = component("Accepted", acceptedShape);
const statedShape = {
  event_id: z.string().describe("The id of the event; its results have it as `causation_id`."),
  replayed: z.boolean().describe("True for a repeat of an accepted event, which has no effect."),
  correlation_id: z.string().describe("List the resulting instances with GET /v1/instances?correlation=."),
};

function resultsOf<Shape extends z.ZodRawShape>(shape: Shape, id: string) {
  const accepted = z.object({ status: z.literal(202), ...shape });
  return z.object({ results: z.array(z.union([accepted, z.object({ status: z.int(), problem: ProblemSchema })]).meta({ id })) });
}

export const accepting = [
  operation("post", "/v1/commands", "acceptCommand", "enqueue", {
    summary: "Accept a command",
    description: [
      "Accepts a command. 202 means that its row is committed: exactly one instance performs it.",
      "`Idempotency-Key` identifies the work. Without it, the command derives a key from its payload. A repeat of the key returns the same instance with its status, `replayed`, and the header `Idempotency-Replayed: true`.",
      "Also accepts CloudEvents 1.0, structured (`application/cloudevents+json`) and binary (`ce-` headers with a body of `application/json` or any `application/…+json`). `data` is the payload. Without the header `Idempotency-Key`, `source` and `id` form the key. The extensions `correlationid`, `causationid`, `mustendby`, `callbackurl`, `traceparent` and `tracestate` are read. `subject` is ignored: it follows from the payload.",
    ].join("\n\n"),
    ...needs("enqueue"),
    key: "Names the work.",
    headers: { ...cloudEventHeaders, ...traceHeadersSchema },
    content: orCloudEvent(commandSchema.meta({ id: "Command" })),
    answer: ["Accepted", AcceptedSchema],
    status: 202,
    location: "The instance.",
    problems: ["unknown_message_type", "invalid_envelope", "idempotency_key_reused"],
    async run({ env, by, catalog, context }) {
      const request = await readMessage(context.req, commandSchema);
      assertMayAsk(catalog, by, request.type);
      return answerAccepted(context, await acceptCommand(env, catalog, requesterOf(by), request));
    },
  }),
  operation("post", "/v1/commands/batch", "acceptCommands", "commands send-batch", {
    summary: "Accept up to 100 commands",
    description:
      "Returns one result per command, in order. Set the key in each item. Also accepts CloudEvents 1.0 in batched mode (`application/cloudevents-batch+json`), each as in `POST /v1/commands`.",
    ...needs("enqueue"),
    headers: traceHeadersSchema,
    content: commandBatch.content,
    answer: ["One result per command, in order", resultsOf(acceptedShape, "BatchResult")],
    async run(asked) {
      const { env, by, catalog } = asked;
      const { body, messages } = await readBatch(asked.context.req, commandBatch, (type) => assertMayAsk(catalog, by, type));
      const spread = messages.map((one, index) =>
        one instanceof MillraceError ? one : later(one, staggered(index, body?.rate_per_second)),
      );
      return answerEach(asked, spread, (commands) => acceptCommands(env, catalog, requesterOf(by), commands), acceptedView);
    },
  }),
  operation("post", "/v1/events", "publishEvent", "events send", {
    summary: "Accept an event",
    description: [
      "Reports an event from outside. 202 means that it is committed. It is then routed like every event: it wakes waiting instances, starts workflows and sends commands. The event has no instance.",
      "`Idempotency-Key` is required and identifies the event among those of its type. A repeat of the key returns the same event, `replayed`. With another payload it is refused.",
      "Accepts only event types declared open (`access`). Tenant and source come from the token, the subject from the payload.",
      "Also accepts CloudEvents 1.0, structured and binary. `data` is the payload. Without the header `Idempotency-Key`, `source` and `id` form the key. The extensions `correlationid`, `causationid`, `traceparent` and `tracestate` are read; `subject` is ignored.",
    ].join("\n\n"),
    ...needs("enqueue"),
    key: "Identifies the event. Required except for a CloudEvent.",
    headers: { ...cloudEventHeaders, ...traceHeadersSchema },
    content: orCloudEvent(eventSchema.meta({ id: "Event" })),
    answer: ["Accepted", component("Stated", statedShape)],
    status: 202,
    problems: ["unknown_message_type", "invalid_envelope", "idempotency_key_reused"],
    async run({ env, by, catalog, context }) {
      const { idempotencyKey: key, ...event } = await readMessage(context.req, eventSchema);
      if (key === undefined) {
        const message = "is missing: send a key for the event, such as the id from its source, so that a repeat is recognized";
        throw invalidRequest([{ path: "Idempotency-Key", message }]);
      }
      assertMayState(catalog, by, event.type);
      const [result] = await publishEvents(env, catalog, requesterOf(by), [{ ...event, idempotencyKey: key }]);
      if (!result || result instanceof MillraceError) throw result;
      return statedView(result);
    },
  }),
  operation("post", "/v1/events/batch", "publishEvents", "events send-batch", {
    summary: "Accept up to 100 events",
    description:
      "Returns one result per event, in order. Each item has its `idempotency_key`. Also accepts CloudEvents 1.0 in batched mode (`application/cloudevents-batch+json`).",
    ...needs("enqueue"),
    headers: traceHeadersSchema,
    content: eventBatch.content,
    answer: ["One result per event, in order", resultsOf(statedShape, "StatedResult")],
    async run(asked) {
      const { env, by, catalog } = asked;
      const { messages } = await readBatch(asked.context.req, eventBatch, (type) => assertMayState(catalog, by, type));
      const send = (events: UntypedRequest[]) => publishEvents(env, catalog, requesterOf(by), events as EventRequest[]);
      return answerEach(asked, messages, send, statedView);
    },
  }),
];

function requesterOf({ tenantId, actor }: Caller) {
  return { tenantId, source: `api/${actor}` };
}

function statedView({ eventId, replayed, correlationId }: Stated) {
  return { event_id: eventId, replayed, correlation_id: correlationId };
}

function later(request: UntypedRequest, seconds: number): UntypedRequest {
  const { runAt, delaySeconds = 0 } = request;
  if (seconds === 0) return request;
  if (runAt === undefined) return { ...request, delaySeconds: delaySeconds + seconds };
  return { ...request, runAt: new Date(Math.max(Date.now(), Date.parse(runAt)) + seconds * 1000).toISOString() };
}

async function readMessage(request: HonoRequest, schema: typeof commandSchema | typeof eventSchema): Promise<UntypedRequest> {
  const key = idempotencyKey(request.header("idempotency-key"));
  const message = (await readCloudEvent(request)) ?? asRequest(await readBody(request, schema, { maxBytes: INTAKE_LIMITS.maxBytes }));
  return { ...message, exact: true, idempotencyKey: key ?? message.idempotencyKey, ...traceOf(request) };
}

/** A message that is invalid, or that the caller may not send (`assertMay` throws), becomes an error at its position. */
async function readBatch<Unread extends z.ZodType>(
  request: HonoRequest,
  { key, item, unread }: { key: string; item: z.ZodType; unread: Unread },
  assertMay: (type: string) => void,
): Promise<{ body: z.output<Unread> | undefined; messages: (UntypedRequest | MillraceError)[] }> {
  const events = await readCloudEvents(request, BATCH_LIMITS);
  const body = events ? undefined : await readBody(request, unread, { ...BATCH_LIMITS, items: { key, most: BATCH_LIMITS.most } });
  const items = events ?? (body as Record<string, unknown[]>)[key] ?? [];
  const messages = items.map((one) => {
    try {
      const message = events ? messageIn(orThrow(one)) : asRequest(parseWith(item, orThrow(one)) as Message);
      assertMay(message.type);
      return { ...message, exact: true, ...traceOf(request) };
    } catch (error) {
      if (error instanceof MillraceError) return error;
      throw error;
    }
  });
  return { body, messages };
}

/** Sends the valid messages together. Returns the result or the problem of each message, in order. */
async function answerEach<Answer extends object, View>(
  { context }: Pick<Asked, "context">,
  messages: readonly (UntypedRequest | MillraceError)[],
  send: (valid: UntypedRequest[]) => Promise<(Answer | MillraceError)[]>,
  view: (answer: Answer) => View,
) {
  const answers = await send(messages.filter((one): one is UntypedRequest => !(one instanceof MillraceError)));
  const results = messages.map((one) => {
    const result = one instanceof MillraceError ? one : answers.shift();
    if (result && !(result instanceof MillraceError)) return { status: 202 as const, ...view(result) };
    const problem = problemOf(result, context.var.problems);
    return { status: problem.status, problem };
  });
  return { results };
}

type Message = z.infer<typeof eventSchema> & Partial<z.infer<typeof commandSchema>> & { idempotency_key?: string | undefined };

function asRequest(message: Message): UntypedRequest {
  return {
    type: message.type,
    payload: message.payload,
    schemaVersion: message.schema_version,
    idempotencyKey: message.idempotency_key,
    correlationId: message.correlation_id,
    causationId: message.causation_id,
    mustEndBy: message.must_end_by,
    callbackUrl: message.callback_url,
    delaySeconds: message.delay_seconds,
    runAt: message.run_at,
    tags: message.tags,
    priority: message.priority,
  };
}
