import { defineWorkflow, messageOf } from "../engine/index.ts";
import { WebhookDeliver } from "../messages/webhooks.ts";
import { type Posted, postWebhook } from "../steps/post-webhook.ts";
import { type Delivery, deliveryOf } from "../webhooks/deliveries.ts";
import { wasGivenUp, wasGone, wasSent, wasSkipped } from "../webhooks/outcome.ts";

/** Delivers one fact to one endpoint: taken, refused for good, skipped, or left to an operator. */
export const deliverWebhook = defineWorkflow({
  name: "deliver-webhook",
  on: WebhookDeliver,
  async run({ payload, step, envelope, instanceId }) {
    const delivery = deliveryOf({ payload, envelope, instanceId });
    try {
      await step.effect("post webhook", postWebhook, delivery, { record: (posted) => outcomeOf(delivery, posted) });
    } catch (error) {
      await step.commit("give up", () => wasGivenUp(delivery, statusIn(error), messageOf(error)));
      throw error;
    }
  },
});

function outcomeOf(delivery: Delivery, posted: Posted) {
  switch (posted.state) {
    case "sent":
      return wasSent(delivery, posted.attempt);
    case "gone":
      return wasGone(delivery, posted.attempt);
    case "skipped":
      return wasSkipped(delivery, posted.why);
  }
}

/** The platform hands an error's words on, not its fields: the status stands in them. */
function statusIn(error: unknown): number | null {
  const [, status] = /answered (\d{3})/.exec(messageOf(error)) ?? [];
  return status === undefined ? null : Number(status);
}
