import { defineWorkflow, texts } from "millrace";
import { BrandAudit, BrandAudited } from "../messages/brand.ts";
import { lookAtKnownBrand, tellAgent } from "../steps/ask-brand-agent.ts";

/**
 * Compares a brand's records with its agent's state, and corrects the state. The workflow's steps are inline, because the agent is our own
 * Durable Object and responds at once.
 */
export const auditBrand = defineWorkflow({
  name: "audit-brand",
  on: BrandAudit,
  steps: "inline",
  async run({ payload: { brand }, step, env, envelope: { tenant_id }, instanceId }) {
    const truth = await step.read("look at the brand", () => lookAtKnownBrand(env, tenant_id, brand));

    const told = { tenant_id, brand, instance_id: instanceId, truth };
    return step.effect("tell the agent", tellAgent, told, {
      record: ({ counts: { drafts, live }, findings }) => ({
        emit: [
          BrandAudited.from({ brand, drafts, live, findings: findings.slice(0, MAX_FINDINGS).map((one) => texts.beginning(one, 500)) }),
        ],
      }),
    });
  },
});

/** Maximum number of corrections that the event contains. The brand's page shows up to a thousand corrections. */
const MAX_FINDINGS = 100;
