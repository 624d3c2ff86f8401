import type { AddressGuard } from "../contract/address-guard.ts";
import { defineWorkflow, type WorkflowDefinition } from "../workflow/workflow.ts";
import { AlertChanged, type AlertNotice, SEND_ALERT } from "./notice.ts";
import { postAlert } from "./post.ts";

/** Options of the workflow that sends alerts. */
export interface AlertSenderOptions {
  /** Checks the address of the signed webhook before each request. Default: no check, because the operator sets the address. */
  readonly guard?: AddressGuard;
}

/**
 * The workflow that sends alerts to the configured channels, with one step for each channel. A channel that fails does not delay the other
 * channels, and an operator's retry sends only to the failed channel. A consumer starts the workflow: `on(AlertChanged, start(sendAlert))`.
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
      // Waits until the posts to all channels have ended, because a permanent error of one channel would otherwise end the run while
      // another channel waits for a retry.
      const refused = (await Promise.allSettled(posts)).find(({ status }) => status === "rejected");
      if (refused) throw (refused as PromiseRejectedResult).reason;
    },
  });
}
