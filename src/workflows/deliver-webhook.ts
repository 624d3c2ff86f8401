import { type Commit, defineWorkflow, errors, type Steps } from "millrace";
import { WebhookDeliver, WebhookSwitched } from "../messages/webhooks.ts";
import { type Posted, postWebhook } from "../steps/post-webhook.ts";
import { type Delivery, deliveryOf } from "../systems/webhooks/deliveries.ts";
import { wasGivenUp, wasGone, wasSent, wasSkipped } from "../systems/webhooks/outcome.ts";

/**
 * Maximum number of days for which a delivery waits for a disabled endpoint. The delivery also checks the endpoint each day, in case a
 * notification was lost.
 */
const DAYS_OFF = 7;

/**
 * Delivers one fact to one endpoint. At the end, the delivery is accepted, permanently refused or skipped, or waits for an operator. The
 * workflow waits while the endpoint is disabled. The workflow's steps are inline, because there is a run for each fact and endpoint, and a
 * receiver usually responds within a second.
 */
export const deliverWebhook = defineWorkflow({
  name: "deliver-webhook",
  on: WebhookDeliver,
  steps: "inline",
  async run({ payload, step, envelope, instanceId }) {
    const delivery = deliveryOf({ payload, envelope, instanceId });
    try {
      let days = 0;
      for (let look = 1; ; look++) {
        const isLast = days === DAYS_OFF;
        const { state } = await step.effect("post webhook", postWebhook, delivery, {
          key: look === 1 ? "" : String(look),
          record: (posted) => outcomeOf(delivery, posted, isLast),
        });
        if (state !== "off" || isLast) return;
        if (!(await isSwitched(step, delivery, String(look)))) days++;
      }
    } catch (error) {
      await step.commit("give up", () => wasGivenUp(delivery, statusIn(error), errors.messageOf(error)));
      throw error;
    }
  },
});

/** Waits for the notification that the endpoint was enabled or deleted. Returns false if no notification arrives within a day. */
async function isSwitched(step: Steps, { endpoint_id }: Delivery, key: string): Promise<boolean> {
  try {
    await step.waitFor("wait until it is on", WebhookSwitched, { subject: endpoint_id, timeout: "1 day", key });
    return true;
  } catch (error) {
    if (errors.codeOf(error) !== "wait_timeout") throw error;
    return false;
  }
}

function outcomeOf(delivery: Delivery, posted: Posted, isLast: boolean): Commit<never> {
  switch (posted.state) {
    case "sent":
      return wasSent(delivery, posted.attempt);
    case "gone":
      return wasGone(delivery, posted.attempt);
    case "skipped":
      return wasSkipped(delivery, posted.why);
    case "off":
      return isLast ? wasSkipped(delivery, `The endpoint has been off for ${DAYS_OFF} days.`) : {};
  }
}

/** Returns the response's status in an error's message. The platform stores an error's message but not the error's fields. */
function statusIn(error: unknown): number | null {
  const [, status] = /answered (\d{3})/.exec(errors.messageOf(error)) ?? [];
  return status === undefined ? null : Number(status);
}
