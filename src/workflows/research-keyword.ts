import { defineWorkflow } from "millrace";
import { BRAND_AGENT } from "../messages/brand.ts";
import { ResearchCompleted, ResearchRequested } from "../messages/research.ts";
import { admitKeyword } from "../steps/ask-brand-agent.ts";
import { onceAffordable } from "../steps/await-room.ts";
import { chargesOf } from "../steps/ceiling.ts";
import { searchWeb } from "../steps/search-web.ts";
import { assertReusable, insertResearch } from "../systems/content/research.ts";

/**
 * Finds sources for a keyword and stores them, or uses existing research. Requests from other sources than the brand's agent are first
 * submitted to it: a keyword with an article, published or in progress, is not paid for again. Its steps are the platform's: a search takes
 * seconds, and may wait for days until its budget has room.
 */
export const researchKeyword = defineWorkflow({
  name: "research-keyword",
  on: ResearchRequested,
  async run({ payload: { brand, keyword, cycle, reuse: named }, step, env, envelope, instanceId }) {
    const { tenant_id: tenantId, source, correlation_id, idempotency_key, traceparent, tracestate } = envelope;
    let reuse = named;
    if (reuse === undefined && source !== BRAND_AGENT) {
      const asked = { instance_id: instanceId, tenant_id: tenantId, brand, cycle, keyword, correlation_id, traceparent, tracestate };
      const { verdict, reason, grounds } = await step.effect("decide", admitKeyword, { ...asked, causation_id: idempotency_key });
      if (verdict === "skipped") return { verdict, reason, ...grounds };
      reuse = grounds.research_id;
    }

    if (reuse !== undefined) {
      const id = reuse;
      await step.commit("hand research on", async () => {
        await assertReusable(env.DB, { id, tenantId, brand, keyword });
        return { emit: [ResearchCompleted.from({ research_id: id, brand, keyword })] };
      });
      return { verdict: "reused", research_id: id };
    }

    await onceAffordable(step, "", (key, isLast) =>
      step.effect(
        "search the web",
        searchWeb,
        { query: keyword, tenantId, brand, isLast },
        {
          key,
          record(found) {
            if ("refused" in found) return {};
            return {
              statements: [insertResearch({ id: instanceId, tenantId, brand, keyword, sources: found.sources })],
              emit: [
                ResearchCompleted.from({ research_id: instanceId, brand, keyword }),
                ...chargesOf(found.spent, `${instanceId}/search`),
              ],
            };
          },
        },
      ),
    );
    return { verdict: "requested", research_id: instanceId };
  },
});
