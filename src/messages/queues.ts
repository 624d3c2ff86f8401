import { defineQueue } from "millrace";

/**
 * The brand engine's queues: a command queue per service that performs commands, one for everybody's events. `wrangler.jsonc` says the same.
 * All but three keep the default of five batches at a time; docs/deploying.md has the table of what to change when.
 */
export const gatherfeedCommands = defineQueue({ name: "gatherfeed-commands" });
export const publishCommands = defineQueue({ name: "publish-commands" });
export const socialCommands = defineQueue({ name: "social-commands" });
export const smCommands = defineQueue({ name: "sm-commands" });
export const brandEvents = defineQueue({ name: "brand-events", batch: { size: 100, waitSeconds: 0 } });

/** The platform side's queues. People wait for webhooks and batches, so these do not wait to fill; facts come in numbers, so theirs do. */
export const webhooks = defineQueue({ name: "webhooks", retries: { limit: 5, initial: "10 seconds", max: "5 minutes" } });
export const projections = defineQueue({
  name: "projections",
  retries: { limit: 10, initial: "1 second", max: "1 minute" },
  batch: { size: 100, waitSeconds: 1 },
  // A batch is one statement of about 0.2 s: ten at a time take the 5,000 messages a second that a queue brings at most.
  concurrency: 10,
});
export const factProcessing = defineQueue({
  name: "fact-processing",
  retries: { limit: 5, initial: "5 seconds", max: "2 minutes" },
  batch: { size: 50, waitSeconds: 1 },
  // Most of its time it waits for objects (budgets, contact books, other ledgers), and little for the database.
  concurrency: 10,
});
export const crmCommands = defineQueue({ name: "crm-commands" });
/** Few messages, each the beginning of hours of work: what comes in numbers here should begin one after the other. */
export const batch = defineQueue({ name: "batch", retries: { limit: 3, initial: "30 seconds", max: "5 minutes" }, concurrency: 2 });
