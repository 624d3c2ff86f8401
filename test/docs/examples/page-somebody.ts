import { defineConsumer, defineStep, defineWorkflow, on, start } from "millrace";
import { AlertChanged, alertSender } from "millrace/worker";

const ring = defineStep({
  effect: "keyed",
  run: async ({ input: { rule }, key, fetch }: { input: { rule: string }; key: string; fetch: typeof globalThis.fetch }) => {
    const answer = await fetch("https://pager.example/ring", { method: "POST", headers: { "idempotency-key": key }, body: rule });
    if (!answer.ok) throw new Error(`The pager answered ${answer.status}.`);
  },
});

/** Calls the pager for each critical alert. */
export const pageSomebody = defineWorkflow({
  name: "page-somebody",
  on: AlertChanged,
  async run({ payload: { change, severity, rule }, step }) {
    const isUrgent = severity === "critical" && (change === "firing" || change === "escalated");
    if (isUrgent) await step.effect("ring", ring, { rule });
  },
});

export const sendAlert = alertSender();

export const alerting = defineConsumer({
  queue: AlertChanged.queue,
  routes: [on(AlertChanged, start(sendAlert), start(pageSomebody))],
});
