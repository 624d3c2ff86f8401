import { takeChange } from "../crm/change.ts";
import { defineWorkflow } from "../engine/index.ts";
import { CrmContactChanged } from "../messages/crm.ts";

/** Looks at a contact that changed in the CRM, and takes over what is new there. One step: it reads, and writes once. */
export const takeCrmChange = defineWorkflow({
  name: "take-crm-change",
  on: CrmContactChanged,
  async run({ payload: notice, step, env, envelope, instanceId }) {
    const retries = { limit: 8, delay: "5 seconds", backoff: "exponential" } as const;
    return step.commit("take change", () => takeChange({ env, envelope, instanceId, notice }), { retries, timeout: "2 minutes" });
  },
});
