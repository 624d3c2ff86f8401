import { AlertChanged, BulkActionRun, defineQueue } from "millrace";

// The queues that messages name. Each has its consumer in consumers/, which says how its messages are taken.

/** The brand engine's: a command queue per service that performs commands, one for everybody's events. */
export const gatherfeedCommands = defineQueue({ name: "gatherfeed-commands" });
export const publishCommands = defineQueue({ name: "publish-commands" });
export const socialCommands = defineQueue({ name: "social-commands" });
export const smCommands = defineQueue({ name: "sm-commands" });
export const brandEvents = defineQueue({ name: "brand-events" });

/** The platform side's. */
export const webhooks = defineQueue({ name: "webhooks" });
export const projections = defineQueue({ name: "projections" });
export const factProcessing = defineQueue({ name: "fact-processing" });
export const crmCommands = defineQueue({ name: "crm-commands" });
export const batch = defineQueue({ name: "batch" });

/** The engine's own messages: what people are told of its health, and what they do to many things at once. */
export const alerts = AlertChanged.queue;
export const bulkActions = BulkActionRun.queue;
