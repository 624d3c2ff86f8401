import { defineWorkflow, notRetryable } from "../engine/index.ts";
import { ContactSync } from "../messages/crm.ts";

/** Under construction. */
export const syncContact = defineWorkflow({
  name: "sync-contact",
  on: ContactSync,
  async run() {
    throw notRetryable("sync-contact is under construction.");
  },
});
