import * as z from "zod";
import { defineCommand, digest } from "../engine/index.ts";
import { webhooks } from "./queues.ts";

/** Deliver one fact, or a test, to one endpoint. The body is computed once, and is the same at every attempt. */
export const WebhookDeliver = defineCommand({
  type: "webhook.deliver",
  payload: z.object({
    endpoint_id: z.string().min(1).max(64),
    /** The version of the endpoint's configuration that matched. */
    config_version: z.int().min(1),
    /** The ledger of the fact: names of facts are unique within it, not beyond. */
    entity: z.string().min(1).max(200),
    fact_id: z.string().min(1).max(200),
    fact_type: z.string().min(1).max(100),
    body: z.string(),
  }),
  key: ({ endpoint_id, entity, fact_id }) => `${endpoint_id}/${digest(entity, fact_id)}`,
  subject: ({ endpoint_id }) => endpoint_id,
  queue: webhooks,
  // Receivers take what is signed for the deployment's own word: its code alone says what that is.
  door: { scope: null, route: "POST /v1/webhooks/{id}/test" },
});

export type WebhookDelivery = z.infer<typeof WebhookDeliver.payload>;

/** What a test is called where a delivery names the type of its fact. */
export const WEBHOOK_TEST = "webhook.test";
