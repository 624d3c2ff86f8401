import { defineWorkflow } from "millrace";
import { BrandCycle } from "../messages/brand.ts";
import { decideCycle } from "../steps/ask-brand-agent.ts";
import { weeklyAudit } from "../systems/brand/weekly-audit.ts";

/**
 * Asks the brand's agent to plan a cycle. The agent itself sends the resulting commands, within the brand's limits. The workflow's step is
 * inline, because the agent is our own Durable Object and responds at once.
 */
export const planCycle = defineWorkflow({
  name: "plan-cycle",
  on: BrandCycle,
  steps: "inline",
  run({
    payload: { brand, cycle, keywords, priority },
    step,
    envelope: { tenant_id, correlation_id, traceparent, tracestate },
    instanceId,
  }) {
    const wanted = { instance_id: instanceId, tenant_id, brand, cycle, keywords, priority, correlation_id, traceparent, tracestate };
    return step.effect("decide", decideCycle, wanted, { record: () => ({ statements: [weeklyAudit(tenant_id, brand)] }) });
  },
});
