import { defineWorkflow, notRetryable } from "../engine/index.ts";
import { BrandCycle } from "../messages/brand.ts";

/** Under construction. */
export const planCycle = defineWorkflow({
  name: "plan-cycle",
  on: BrandCycle,
  async run() {
    throw notRetryable("plan-cycle is under construction.");
  },
});
