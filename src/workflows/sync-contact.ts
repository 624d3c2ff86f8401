import { defineWorkflow, notRetryable } from "millrace";
import { ContactSync } from "../messages/crm.ts";
import { connectCompany, lookAtOne, mergeRecordsOfOne, upsertCompany, upsertContact } from "../systems/crm/one.ts";

/** The step retries for three quarters of an hour, because several pushes may reserve the contact for 6 minutes each. */
const PATIENCE = { retries: { limit: 9, delay: "5 seconds", backoff: "exponential" }, timeout: "2 minutes" } as const;

/**
 * Maximum number of restarts of the sync. A restart is needed if another push has reserved the contact while a call waited for its retry.
 */
const MOST_ROUNDS = 20;

/**
 * Pushes one contact to the CRM. The first step reads the contact and its record. Each needed call is a step of its own, so that only a
 * failed call is retried. The last step writes the link and the event. The workflow's steps are inline, because there are many such runs,
 * and almost every call takes less than a second.
 */
export const syncContact = defineWorkflow({
  name: "sync-contact",
  on: ContactSync,
  steps: "inline",
  async run({ payload: { contact_id: contactId }, step, env, envelope, instanceId }) {
    const call = { env, envelope, instanceId, contactId };
    for (let round = 1; round <= MOST_ROUNDS; round++) {
      const options = round === 1 ? PATIENCE : { key: `round ${round}`, ...PATIENCE };
      const look = await step.commit("look at contact", () => lookAtOne(call), options);
      let at = look;
      const isNext = (name: (typeof at.left)[number]) => at.left[0] === name;
      if (isNext("upsert contact")) at = await step.commit("upsert contact", () => upsertContact(call, at), options);
      if (isNext("upsert company")) at = await step.commit("upsert company", () => upsertCompany(call, at), options);
      if (isNext("connect company")) at = await step.commit("connect company", () => connectCompany(call, at), options);
      if (isNext("merge records")) at = await step.commit("merge records", () => mergeRecordsOfOne(call, at), options);
      if (!at.again) return { contact_id: at.contact_id, crm_id: at.crm_id };
    }
    throw notRetryable(`Other pushes interrupted this one ${MOST_ROUNDS} times. Send another contact.sync.`);
  },
});
