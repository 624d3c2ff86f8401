import { defineWorkflow } from "millrace";
import { CrmAdoptAccount } from "../messages/crm.ts";
import { adoptAccount } from "../systems/crm/adopt.ts";
import { placeOf } from "../systems/crm/keys.ts";

/**
 * Deletes a tenant's links to the records of one CRM account, so that the tenant's contacts can be linked to another account. The
 * workflow's steps are inline, because each step is one write of our own rows.
 */
export const adoptCrmAccount = defineWorkflow({
  name: "adopt-crm-account",
  on: CrmAdoptAccount,
  steps: "inline",
  async run({ payload: { account }, step, env, envelope }) {
    for (let after: string | null = ""; after !== null; ) {
      const from: string = after;
      const { next } = await step.commit("forget links", () => adoptAccount(env, envelope.tenant_id, account, from), {
        key: placeOf(from),
      });
      after = next;
    }
  },
});
