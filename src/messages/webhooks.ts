import { defineCommand, defineEvent, digest } from "millrace";
import * as z from "zod";
import { brandEvents, webhooks } from "./queues.ts";

/**
 * Deliver one fact, or a test, to one endpoint. The body is computed once, and is the same at every attempt. A redelivery names the
 * delivery that it repeats, whose command has the body, and a key of its own.
 */
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
    body: z.string().optional(),
    /** The delivery that is made again; absent the first time. */
    delivery_id: z.string().length(32).optional(),
  }),
  key: ({ endpoint_id, entity, fact_id }) => `${endpoint_id}/${digest(entity, fact_id)}`,
  subject: ({ endpoint_id }) => endpoint_id,
  queue: webhooks,
  // Receivers take what is signed for the deployment's own word: its code alone says what that is.
  door: { scope: null, route: "POST /v1/webhooks/{id}/test" },
});

export type WebhookDelivery = z.infer<typeof WebhookDeliver.payload>;

/**
 * An endpoint was changed and is on, or was deleted, or some of its deliveries are not to be made: those that were put off while it was off
 * look again.
 */
export const WebhookSwitched = defineEvent({
  type: "webhook.switched",
  payload: z.object({ endpoint_id: z.string().min(1).max(64), version: z.int().min(1) }),
  subject: ({ endpoint_id }) => endpoint_id,
  queue: brandEvents,
});

/** What a test is called where a delivery names the type of its fact. */
export const WEBHOOK_TEST = "webhook.test";
