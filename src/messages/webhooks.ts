import { defineCommand, defineEvent, ids } from "millrace";
import * as z from "zod";
import { brandEvents, webhooks } from "./queues.ts";

/**
 * The command to deliver one fact, or a test, to one webhook endpoint. The body of the delivery is computed once, so that every attempt
 * sends the same body. A redelivery has its own key and names the original delivery. The command of the original delivery contains the
 * body.
 */
export const WebhookDeliver = defineCommand({
  type: "webhook.deliver",
  payload: z.object({
    endpoint_id: z.string().min(1).max(64),
    /** The version of the endpoint's configuration that matched the fact. */
    config_version: z.int().min(1),
    /** The entity of the fact's ledger. The field is necessary because names of facts are unique only within a ledger. */
    entity: z.string().min(1).max(200),
    fact_id: z.string().min(1).max(200),
    fact_type: z.string().min(1).max(100),
    body: z.string().optional(),
    /** The id of the original delivery; absent if this delivery is not a redelivery. */
    delivery_id: z.string().length(32).optional(),
  }),
  key: ({ endpoint_id, entity, fact_id }) => `${endpoint_id}/${ids.digest(entity, fact_id)}`,
  subject: ({ endpoint_id }) => endpoint_id,
  queue: webhooks,
  // Receivers trust the deployment's signature, so only the deployment's own code sends this command.
  access: { scope: null, route: "POST /v1/webhooks/{id}/test" },
});

export type WebhookDelivery = z.infer<typeof WebhookDeliver.payload>;

/**
 * The event that a webhook endpoint was enabled, changed or deleted, or that some of the endpoint's deliveries were skipped. Waiting
 * deliveries then check the endpoint again.
 */
export const WebhookSwitched = defineEvent({
  type: "webhook.switched",
  payload: z.object({ endpoint_id: z.string().min(1).max(64), version: z.int().min(1) }),
  subject: ({ endpoint_id }) => endpoint_id,
  queue: brandEvents,
});

/** The type that a delivery has if it is a test and delivers no fact. */
export const WEBHOOK_TEST = "webhook.test";
