import type { HonoRequest } from "hono";
import * as z from "zod";
import { assertMayAsk } from "../../access/may-ask.ts";
import { MAX_ADDRESS_CHARACTERS } from "../../contract/address-guard.ts";
import { chosenName } from "../../contract/chosen-name.ts";
import { tagsSchema } from "../../contract/envelope.ts";
import { MillraceError } from "../../contract/errors.ts";
import { INTAKE_LIMITS } from "../../contract/limits.ts";
import { MAX_DUE_SECONDS, MAX_RATE_PER_SECOND, staggered } from "../../contract/queue.ts";
import { acceptCommand, acceptCommands, PRIORITIES, type UntypedRequest } from "../../intake/accept/enqueue.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { acceptedAnswer, acceptedHeaders, acceptedShape, acceptedView } from "../accepted.ts";
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
import { idempotencyKey, keyHeader, MAX_KEY_CHARACTERS } from "../idempotency-key.ts";
import { answerEach, BATCH_LIMITS, itemResult, readItems, requesterOf } from "../items.ts";
import { notTaken } from "../media-type.ts";
import { ProblemSchema, problems } from "../problem.ts";
import { at, createRoute, Routes } from "../router.ts";
import { traceHeadersSchema, traceOf } from "../trace.ts";

export const commandSchema = z.strictObject({
  type: z.string().min(1).max(100).meta({ description: "The type of the command, such as `content.publish`." }),
  payload: z.unknown().meta({ description: "The payload, by the schema of the command.", examples: [{ order: "1042" }] }),
  schema_version: z.int().min(1).optional().meta({ description: "The version of the payload. Default: the current one." }),
  correlation_id: chosenName(200)
    .optional()
    .meta({ description: "The correlation id of the job. Default: derived by the command, else a new one." }),
  causation_id: chosenName(300).optional().meta({ description: "What caused this." }),
  must_end_by: z.string().max(100).optional().meta({
    description:
      "The deadline of the instance: a time with an offset, or a duration from now such as `2 hours`. A deadline more than a minute in the past, or before a delayed command is due, is refused. After the deadline the instance is `overdue` and an alert is raised; it is not stopped. Default: the deadline of the workflow.",
  }),
  callback_url: z.string().max(MAX_ADDRESS_CHARACTERS).optional().meta({
    description:
      "A URL that is called once for each end of the instance (complete, errored, terminated, dead, skipped), signed as a Standard Webhook. A repeat of the command does not change it.",
  }),
  tags: tagsSchema.optional().meta({
    description:
      "Texts by which instances are found, in addition to the tags that the command derives from its payload: at most 10 together.",
    examples: [["customer:acme"]],
  }),
  delay_seconds: z.int().min(0).max(MAX_DUE_SECONDS).optional(),
  run_at: z.iso.datetime({ offset: true }).optional().meta({
    description:
      "The time to start at, instead of a delay: at most 365 days from now (12 hours on a lane), in whole seconds. A past time is no delay.",
  }),
  priority: z.enum(PRIORITIES).optional().meta({
    description: "`high` starts before all waiting commands of the queue, `low` after them. Refused if the queue has no priorities.",
  }),
});

const batchItemSchema = commandSchema.extend({
  idempotency_key: chosenName(MAX_KEY_CHARACTERS).optional(),
});

const { most, maxBytes } = BATCH_LIMITS;
const ratePerSecond = z
  .number()
  .positive()
  .max(MAX_RATE_PER_SECOND)
  .optional()
  .meta({ description: "Commands of this batch that start per second, in list order. Default: all at once." });
/**
 * The documented body of a batch of commands. The items of the batch are read separately, so that an invalid item does not affect the valid
 * items.
 */
const batchSchema = z.strictObject({ commands: z.array(batchItemSchema).min(1).max(BATCH_LIMITS.most), rate_per_second: ratePerSecond });
const unreadBatchSchema = z.strictObject({
  commands: z.array(z.unknown()).min(1).max(BATCH_LIMITS.most),
  rate_per_second: ratePerSecond,
});

const AcceptedSchema = z.object(acceptedShape).meta({ id: "Accepted" });
const BatchResultSchema = z
  .union([z.object({ status: z.literal(202), ...acceptedShape }), z.object({ status: z.int(), problem: ProblemSchema })])
  .meta({ id: "BatchResult" });

const acceptOne = createRoute({
  ...at("post", "/v1/commands", "acceptCommand", "commands send"),
  summary: "Accept a command",
  description: [
    "Accepts a command. 202 means that its row is committed: exactly one instance performs it.",
    "`Idempotency-Key` identifies the work. Without it, the command derives a key from its payload. A repeat of the key returns the same instance with its status, `replayed`, and the header `Idempotency-Replayed: true`.",
    "Also accepts CloudEvents 1.0, structured (`application/cloudevents+json`) and binary (`ce-` headers with a body of `application/json` or any `application/…+json`). `data` is the payload. Without the header `Idempotency-Key`, `source` and `id` form the key. The extensions `correlationid`, `causationid`, `mustendby`, `callbackurl`, `traceparent` and `tracestate` are read. `subject` is ignored: it follows from the payload.",
  ].join("\n\n"),
  ...needs("enqueue"),
  request: {
    headers: z.object({
      ...keyHeader("Names the work."),
      ...cloudEventHeaders,
      ...traceHeadersSchema,
    }),
    body: {
      required: true,
      content: orCloudEvent("Command"),
    },
  },
  responses: {
    202: acceptedAnswer(AcceptedSchema),
    ...problems(...BODY_REFUSALS, "unknown_message_type", "invalid_envelope", "idempotency_key_reused"),
  },
});

const acceptMany = createRoute({
  ...at("post", "/v1/commands/batch", "acceptCommands", "commands send-batch"),
  summary: "Accept up to 100 commands",
  description:
    "Returns one result per command, in order. Set the key in each item. Also accepts CloudEvents 1.0 in batched mode (`application/cloudevents-batch+json`), each as in `POST /v1/commands`.",
  ...needs("enqueue"),
  request: {
    headers: z.object(traceHeadersSchema),
    body: {
      required: true,
      content: orCloudEvents(batchSchema, BATCH_LIMITS.most),
    },
  },
  responses: {
    200: {
      description: "One result per command, in order",
      content: { "application/json": { schema: z.object({ results: z.array(BatchResultSchema) }) } },
    },
    ...problems(...BODY_REFUSALS),
  },
});

export function commands(catalog: Catalog) {
  return new Routes<HttpEnv>()
    .openapi(acceptOne, async (context) => {
      const request = await readCommand(context.req);
      assertMayAsk(catalog, context.var.caller, request.type);
      const result = await acceptCommand(context.env, catalog, requesterOf(context.var.caller), request);
      return context.json(acceptedView(result), 202, acceptedHeaders(result));
    })
    .openapi(acceptMany, async (context) => {
      const { env, var: variables, req } = context;
      let rate: number | undefined;
      const requests = await readItems<UntypedRequest>(req, {
        json: async () => {
          const body = await readBody(req, unreadBatchSchema, { maxBytes, items: { key: "commands", most } });
          rate = body.rate_per_second;
          return body.commands;
        },
        read: commandIn,
        assertMay: (type) => assertMayAsk(catalog, variables.caller, type),
      });
      const spread = requests.map((one, index) => (one instanceof MillraceError ? one : later(one, staggered(index, rate))));
      const answers = await answerEach(spread, (asked) => acceptCommands(env, catalog, requesterOf(variables.caller), asked));
      return context.json({ results: answers.map((one) => itemResult(one, variables.problems, acceptedView)) }, 200);
    });
}

/** The request, with its delay or its time to start later by this number of seconds. */
function later(request: UntypedRequest, seconds: number): UntypedRequest {
  const { runAt, delaySeconds = 0 } = request;
  if (seconds === 0) return request;
  if (runAt === undefined) return { ...request, delaySeconds: delaySeconds + seconds };
  return { ...request, runAt: new Date(Math.max(Date.now(), Date.parse(runAt)) + seconds * 1000).toISOString() };
}

async function readCommand(request: HonoRequest): Promise<UntypedRequest> {
  const key = idempotencyKey(request.header("idempotency-key"));
  if (isCloudEventBatch(request))
    throw notTaken(`${CLOUD_EVENT_BATCH}, which goes to POST /v1/commands/batch`, "application/json", CLOUD_EVENT);
  const command = isCloudEvent(request)
    ? commandOf(await readCloudEvent(request))
    : asRequest(await readBody(request, commandSchema, { maxBytes: INTAKE_LIMITS.maxBytes }));
  return {
    ...command,
    exact: true,
    idempotencyKey: key ?? command.idempotencyKey,
    ...traceOf(request),
  };
}

function commandIn(item: unknown): UntypedRequest {
  const { idempotency_key, ...command } = parseWith(batchItemSchema, item);
  return { ...asRequest(command), idempotencyKey: idempotency_key };
}

function asRequest(command: z.infer<typeof commandSchema>): UntypedRequest {
  return {
    type: command.type,
    payload: command.payload,
    schemaVersion: command.schema_version,
    correlationId: command.correlation_id,
    causationId: command.causation_id,
    mustEndBy: command.must_end_by,
    callbackUrl: command.callback_url,
    delaySeconds: command.delay_seconds,
    runAt: command.run_at,
    tags: command.tags,
    priority: command.priority,
  };
}
