import { defineWorkflow, notRetryable } from "../engine/index.ts";
import { BrandAudit } from "../messages/brand.ts";

/** Under construction. */
export const auditBrand = defineWorkflow({
  name: "audit-brand",
  on: BrandAudit,
  async run() {
    throw notRetryable("audit-brand is under construction.");
  },
});
