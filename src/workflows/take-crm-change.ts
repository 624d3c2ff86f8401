import { defineWorkflow } from "millrace";
import { CrmContactChanged } from "../messages/crm.ts";
import { takeChange } from "../systems/crm/change.ts";

/**
 * Reads a contact's record that has changed in the CRM, and copies the changes to the contact. The workflow has one step, which reads the
 * record and writes all changes together. The step is inline, because there is a run for each change, and reading one record takes less
 * than a second.
 */
export const takeCrmChange = defineWorkflow({
  name: "take-crm-change",
  on: CrmContactChanged,
  steps: "inline",
  async run({ payload: notice, step, env, envelope, instanceId }) {
    // The step retries for an hour and a half, because several pushes may reserve the contact for 6 minutes each.
    const retries = { limit: 10, delay: "5 seconds", backoff: "exponential" } as const;
    return step.commit("take change", () => takeChange({ env, envelope, instanceId, notice }), { retries, timeout: "2 minutes" });
  },
});
