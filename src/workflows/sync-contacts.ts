import { defineWorkflow, notRetryable } from "../engine/index.ts";
import { ContactsSync } from "../messages/crm.ts";

/** Under construction. */
export const syncContacts = defineWorkflow({
  name: "sync-contacts",
  on: ContactsSync,
  async run() {
    throw notRetryable("sync-contacts is under construction.");
  },
});
