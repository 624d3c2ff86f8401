import * as z from "zod";
import { hideNothing } from "../../contract/hide.ts";
import { getInstance } from "../../inspect/instances.ts";
import { EmittedMessage, emittedBy } from "../../inspect/messages.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { redactionFor, revealQuery } from "../redaction.ts";
import { reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const EmittedSchema = z.object({
  items: z.array(EmittedMessage),
  truncated: z.boolean(),
  left_out: z.int().meta({
    description:
      "Messages that were sent but of which no copy is kept: the messages of one step are kept up to 250,000 characters. Find their results by the job: GET /v1/instances?correlation=. 0 for steps recorded before this count existed.",
  }),
});

const list = createRoute({
  ...at("get", "/v1/instances/{id}/events", "listEmittedMessages", "instances events"),
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
  responses: reads("Messages in the order of their steps", EmittedSchema, "instance_not_found"),
});

export function events(catalog: Catalog) {
  return new Routes<HttpEnv>().openapi(list, async (context) => {
    const { id } = await getInstance(context.env, context.var.caller, context.req.valid("param").id);
    const withPayload = context.req.valid("query").payload === "true";
    const redaction = await redactionFor(context, catalog);
    const { messages, leftOut } = await emittedBy(context.env, context.var.caller, id);
    // Sensitive data of an instance may appear in any field of the messages that the instance emits.
    const hide = withPayload ? (await redaction.ofInstances(context.env, context.var.caller, [id]))(id) : hideNothing;
    const items = messages.map(({ payload_inline, payload_ref, ...rest }) => {
      const payload = withPayload && { payload_inline: hide(redaction.payload(rest, payload_inline)), payload_ref };
      return { ...rest, ...payload };
    });
    return context.json({ items, truncated: leftOut > 0, left_out: leftOut }, 200);
  });
}
