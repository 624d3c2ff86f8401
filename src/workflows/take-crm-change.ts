import { defineWorkflow, notRetryable } from "../engine/index.ts";
import { CrmContactChanged } from "../messages/crm.ts";

/** Under construction. */
export const takeCrmChange = defineWorkflow({
  name: "take-crm-change",
  on: CrmContactChanged,
  async run() {
    throw notRetryable("take-crm-change is under construction.");
  },
});
