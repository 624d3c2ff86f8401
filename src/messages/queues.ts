import { defineQueue } from "millrace";
import { AlertChanged, BulkActionRun } from "millrace/worker";

// The queues of this deployment's messages. The consumer of each queue is in consumers/.

/** The queues of the brand engine: one queue of commands for each service, and one queue of events. */
export const gatherfeedCommands = defineQueue({ name: "gatherfeed-commands" });
export const publishCommands = defineQueue({ name: "publish-commands" });
export const socialCommands = defineQueue({ name: "social-commands" });
export const smCommands = defineQueue({ name: "sm-commands" });
export const brandEvents = defineQueue({ name: "brand-events" });

/** The queues of facts, webhooks, batches and contacts. */
export const webhooks = defineQueue({ name: "webhooks" });
export const projections = defineQueue({ name: "projections" });
export const factProcessing = defineQueue({ name: "fact-processing" });
export const crmCommands = defineQueue({ name: "crm-commands" });
export const batch = defineQueue({ name: "batch" });

/** The queues of the engine's own messages: alerts, and operators' bulk actions. */
export const alerts = AlertChanged.queue;
export const bulkActions = BulkActionRun.queue;
