// Every consumer of this deployment, one per queue. The catalog includes this list, and worker.ts exports a class for each workflow.
export { alerting } from "./alerts.ts";
export { batching } from "./batch.ts";
export { reacting } from "./brand-events.ts";
export { bulkActing } from "./bulk-actions.ts";
export { syncing } from "./crm-commands.ts";
export { deriving } from "./fact-processing.ts";
export { researching } from "./gatherfeed-commands.ts";
export { projecting } from "./projections.ts";
export { publishing } from "./publish-commands.ts";
export { planning } from "./sm-commands.ts";
export { posting } from "./social-commands.ts";
export { delivering } from "./webhooks.ts";
