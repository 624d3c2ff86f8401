import { defineWorkflow } from "millrace";
import { BrandCycle } from "../messages/brand.ts";
import { decideCycle } from "../steps/ask-brand-agent.ts";
import { weeklyAudit } from "../systems/brand/weekly-audit.ts";

/**
 * Has the brand's agent decide a cycle. What follows, the agent sends itself, when there is room for it. Its step is lean: the agent is an
 * object of ours, and answers at once.
 */
export const planCycle = defineWorkflow({
  name: "plan-cycle",
  on: BrandCycle,
  steps: "lean",
  run({ payload: { brand, cycle, keywords }, step, envelope: { tenant_id, correlation_id, traceparent, tracestate }, instanceId }) {
    const wanted = { instance_id: instanceId, tenant_id, brand, cycle, keywords, correlation_id, traceparent, tracestate };
    return step.effect("decide", decideCycle, wanted, { record: () => ({ statements: [weeklyAudit(tenant_id, brand)] }) });
  },
});
