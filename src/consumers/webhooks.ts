import { defineConsumer } from "millrace";
import { webhooks } from "../messages/queues.ts";
import { deliverWebhook } from "../workflows/deliver-webhook.ts";

/** Somebody waits for a webhook: its batches do not wait to fill, and its retries come soon. */
export const delivering = defineConsumer({
  queue: webhooks,
  retries: { limit: 5, initial: "10 seconds", max: "5 minutes" },
  starts: [deliverWebhook],
});
