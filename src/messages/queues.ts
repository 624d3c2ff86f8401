import { AlertChanged, BulkActionRun, defineQueue } from "millrace";

// The queues of messages. Each queue has its consumer in consumers/.

/** The brand engine's queues: a command queue per service, and an event queue. */
export const gatherfeedCommands = defineQueue({ name: "gatherfeed-commands" });
export const publishCommands = defineQueue({ name: "publish-commands" });
export const socialCommands = defineQueue({ name: "social-commands" });
export const smCommands = defineQueue({ name: "sm-commands" });
export const brandEvents = defineQueue({ name: "brand-events" });

/** The platform's queues. */
export const webhooks = defineQueue({ name: "webhooks" });
export const projections = defineQueue({ name: "projections" });
export const factProcessing = defineQueue({ name: "fact-processing" });
export const crmCommands = defineQueue({ name: "crm-commands" });
export const batch = defineQueue({ name: "batch" });

/** The engine's own messages: alerts, and operators' bulk actions. */
export const alerts = AlertChanged.queue;
export const bulkActions = BulkActionRun.queue;
