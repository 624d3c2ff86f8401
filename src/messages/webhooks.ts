import { defineCommand, defineEvent, digest } from "millrace";
import * as z from "zod";
import { brandEvents, webhooks } from "./queues.ts";

/**
 * The command to deliver one fact, or a test, to one webhook endpoint. The body of the delivery is computed once, and is the same at every
 * attempt. A redelivery has its own key and names the original delivery, whose command contains the body.
 */
export const WebhookDeliver = defineCommand({
  type: "webhook.deliver",
  payload: z.object({
    endpoint_id: z.string().min(1).max(64),
    /** The version of the endpoint's configuration that matched the fact. */
    config_version: z.int().min(1),
    /** The entity of the fact's ledger: names of facts are unique only within a ledger. */
    entity: z.string().min(1).max(200),
    fact_id: z.string().min(1).max(200),
    fact_type: z.string().min(1).max(100),
    body: z.string().optional(),
    /** The delivery that is sent again; absent the first time. */
    delivery_id: z.string().length(32).optional(),
  }),
  key: ({ endpoint_id, entity, fact_id }) => `${endpoint_id}/${digest(entity, fact_id)}`,
  subject: ({ endpoint_id }) => endpoint_id,
  queue: webhooks,
  // Receivers trust the deployment's signature, so only its own code sends this command.
  door: { scope: null, route: "POST /v1/webhooks/{id}/test" },
});

export type WebhookDelivery = z.infer<typeof WebhookDeliver.payload>;

/**
 * The event that a webhook endpoint was enabled, changed or deleted, or that some of its deliveries were skipped: waiting deliveries check
 * again.
 */
export const WebhookSwitched = defineEvent({
  type: "webhook.switched",
  payload: z.object({ endpoint_id: z.string().min(1).max(64), version: z.int().min(1) }),
  subject: ({ endpoint_id }) => endpoint_id,
  queue: brandEvents,
});

/** The type of a webhook test in deliveries. */
export const WEBHOOK_TEST = "webhook.test";
