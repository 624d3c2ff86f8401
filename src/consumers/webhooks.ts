import { defineConsumer } from "millrace";
import { webhooks } from "../messages/queues.ts";
import { deliverWebhook } from "../workflows/deliver-webhook.ts";

/** Receivers wait for webhooks, so batches do not wait to fill, and retries follow soon. */
export const delivering = defineConsumer({
  queue: webhooks,
  retries: { limit: 5, initial: "10 seconds", max: "5 minutes" },
  starts: [deliverWebhook],
});
