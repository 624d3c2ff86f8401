import { defineQueue } from "../engine/index.ts";

/** The brand engine's queues: a command queue per service that performs commands, one for everybody's events. `wrangler.jsonc` says the same. */
export const gatherfeedCommands = defineQueue({ name: "gatherfeed-commands" });
export const publishCommands = defineQueue({ name: "publish-commands" });
export const socialCommands = defineQueue({ name: "social-commands" });
export const brandEvents = defineQueue({ name: "brand-events", batch: { size: 100, waitSeconds: 0 } });
