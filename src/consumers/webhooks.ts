import { defineConsumer } from "millrace";
import { webhooks } from "../messages/queues.ts";
import { deliverWebhook } from "../workflows/deliver-webhook.ts";

/** Receivers wait for webhooks, so the consumer does not wait for full batches and retries after a short delay. */
export const delivering = defineConsumer({
  queue: webhooks,
  retries: { limit: 5, initial: "10 seconds", max: "5 minutes" },
  starts: [deliverWebhook],
});
