import { syncOne } from "../crm/one.ts";
import { defineWorkflow } from "../engine/index.ts";
import { ContactSync } from "../messages/crm.ts";

/**
 * Brings one contact to the CRM. One step: whom it is known as, the record, its company and the merge of records are calls that bear
 * repetition, so that a fence between them would cost and keep nothing; the link and the event are one write.
 */
export const syncContact = defineWorkflow({
  name: "sync-contact",
  on: ContactSync,
  async run({ payload: { contact_id: contactId }, step, env, envelope, instanceId }) {
    const retries = { limit: 6, delay: "5 seconds", backoff: "exponential" } as const;
    return step.commit("sync contact", () => syncOne({ env, envelope, instanceId, contactId }), { retries, timeout: "2 minutes" });
  },
});
