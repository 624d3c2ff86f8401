import { beginning, defineWorkflow } from "millrace";
import { BrandAudit, BrandAudited } from "../messages/brand.ts";
import { lookAtKnownBrand, tellAgent } from "../steps/ask-brand-agent.ts";

/**
 * Looks at what a brand really has, and sets right what its agent believes otherwise. Its steps are lean: the agent is an object of ours,
 * and answers at once.
 */
export const auditBrand = defineWorkflow({
  name: "audit-brand",
  on: BrandAudit,
  steps: "lean",
  async run({ payload: { brand }, step, env, envelope: { tenant_id }, instanceId }) {
    const truth = await step.read("look at the brand", () => lookAtKnownBrand(env, tenant_id, brand));

    const told = { tenant_id, brand, instance_id: instanceId, truth };
    return step.effect("tell the agent", tellAgent, told, {
      record: ({ counts: { drafts, live }, findings }) => ({
        emit: [BrandAudited.from({ brand, drafts, live, findings: findings.slice(0, MAX_FINDINGS).map((one) => beginning(one, 500)) })],
      }),
    });
  },
});

/** Findings that the event tells of. The brand's page has a thousand. */
const MAX_FINDINGS = 100;
