import * as z from "zod";
import type { Envelope } from "../../contract/envelope.ts";
import { hideNothing } from "../../contract/hide.ts";
import { getInstance } from "../../inspect/instances.ts";
import { type EmittedMessage, emittedBy } from "../../inspect/messages.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { redactionFor, revealQuery } from "../redaction.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { timestamp } from "../time.ts";

const EmittedMessageSchema = z
  .looseObject({
    step: z.string(),
    confirmed: z.boolean().meta({ description: "True after its consumer accepted it, also as a dead letter (see GET /v1/dead-letters)." }),
    schema_version: z.int(),
    message_type: z.string(),
    kind: z.enum(["command", "event"]),
    correlation_id: z.string(),
    causation_id: z.string(),
    idempotency_key: z.string(),
    subject: z.string(),
    created_at: timestamp,
    payload_inline: z.unknown().optional(),
    payload_ref: z.string().optional(),
  })
  .meta({ id: "EmittedMessage" });

const EmittedSchema = z.object({
  items: z.array(EmittedMessageSchema),
  truncated: z.boolean(),
  left_out: z.int().meta({
    description:
      "Messages that were sent but of which no copy is kept: the messages of one step are kept up to 250,000 characters. Find their results by the job: GET /v1/instances?correlation=. 0 for steps recorded before this count existed.",
  }),
});

const list = createRoute({
  method: "get",
  path: "/v1/instances/{id}/events",
  operationId: "listEmittedMessages",
  command: "instances events",
  summary: "List the messages that an instance emitted",
  description: "Returns the commands and events that the steps of the instance emitted.",
  ...needs("read"),
  request: {
    params: z.object({ id: z.string() }),
    query: z.strictObject({
      payload: z.enum(["true", "false"]).default("false").meta({ description: "True includes payloads." }),
      ...revealQuery,
    }),
  },
  responses: {
    200: answers("Messages in the order of their steps", EmittedSchema),
    ...problems("unauthorized", "forbidden", "instance_not_found", "invalid_payload"),
  },
});

export function events(catalog: Catalog) {
  return new Routes<HttpEnv>().openapi(list, async (context) => {
    const { id } = await getInstance(context.env, context.var.caller, context.req.valid("param").id);
    const withPayload = context.req.valid("query").payload === "true";
    const redaction = await redactionFor(context, catalog);
    const { messages, leftOut } = await emittedBy(context.env, context.var.caller, id);
    // Sensitive data of the instance may appear in any field of its messages.
    const hide = withPayload ? (await redaction.ofInstances(context.env, context.var.caller, [id]))(id) : hideNothing;
    const shown = (envelope: Envelope) => hide(redaction.payload(envelope, envelope.payload_inline));
    const items = messages.map((message) => messageView(message, withPayload, shown));
    return context.json({ items, truncated: leftOut > 0, left_out: leftOut }, 200);
  });
}

function messageView(
  { step, confirmed, envelope }: EmittedMessage,
  withPayload: boolean,
  shown: (envelope: Envelope) => unknown,
): z.infer<typeof EmittedMessageSchema> {
  const { payload_inline: _, payload_ref, ...rest } = envelope;
  return { step, confirmed, ...rest, ...(withPayload && { payload_inline: shown(envelope), payload_ref }) };
}
