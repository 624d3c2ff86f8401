import type { AddressGuard } from "../contract/address-guard.ts";
import { defineWorkflow, type WorkflowDefinition } from "../workflow/workflow.ts";
import { AlertChanged, type AlertNotice, SEND_ALERT } from "./notice.ts";
import { postAlert } from "./post.ts";

/** What a deployment gives to the sending of its alerts. */
export interface AlertSenderOptions {
  /** Judges the address of the signed webhook before each request. Default: the address is the operator's own, and is not judged. */
  readonly guard?: AddressGuard;
}

/**
 * The workflow that sends alerts to the channels that are configured, each by a step of its own: one that does not answer holds up none of
 * the others, and is all that an operator's retry sends again. Its consumer: `on(AlertChanged, start(sendAlert))`.
 */
export function alertSender({ guard }: AlertSenderOptions = {}): WorkflowDefinition<AlertNotice, "alert.changed"> {
  const post = postAlert(guard);
  return defineWorkflow({
    name: SEND_ALERT,
    on: AlertChanged,
    async run({ payload: notice, step, envelope: { idempotency_key: id } }) {
      const posts = notice.channels.map((channel) =>
        step.effect("post alert", post, { id: `${id}-${channel}`, channel, notice }, { key: channel }),
      );
      // All are waited for: a channel that refuses for good would end the run while another one is in its back-off.
      const refused = (await Promise.allSettled(posts)).find(({ status }) => status === "rejected");
      if (refused) throw (refused as PromiseRejectedResult).reason;
    },
  });
}
