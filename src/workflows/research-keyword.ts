import { defineWorkflow } from "millrace";
import { BRAND_AGENT } from "../messages/brand.ts";
import { ResearchCompleted, ResearchRequested } from "../messages/research.ts";
import { admitKeyword } from "../steps/ask-brand-agent.ts";
import { onceAffordable } from "../steps/await-room.ts";
import { chargesOf } from "../steps/ceiling.ts";
import { searchWeb } from "../steps/search-web.ts";
import { synthesize } from "../steps/synthesize.ts";
import { recordAnswer, untilUsable } from "../steps/until-usable.ts";
import { firstSynthesis } from "../systems/content/next-ask.ts";
import { SYNTHESIS_PROMPT } from "../systems/content/prompts.ts";
import { assertReusable, insertResearch } from "../systems/content/research.ts";

/**
 * Finds sources for a keyword, lets a model summarize the sources, and stores sources and summary. If research exists already, the workflow
 * uses that research. Requests that do not come from the brand's agent are first submitted to the agent. In this way research is not paid
 * again for a keyword with an article. The workflow's steps are platform steps, because a search takes seconds and may wait for days until
 * the budget allows the search.
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

    const completed = ResearchCompleted.from({ research_id: instanceId, brand, keyword });
    const research = { id: instanceId, tenantId, brand, keyword };
    const { sources, prompt } = await onceAffordable(step, "", (key, isLast) =>
      step.effect(
        "search the web",
        searchWeb,
        { query: keyword, tenantId, brand, isLast },
        {
          key,
          record(found) {
            if ("refused" in found) return {};
            const charges = chargesOf(found.spent, `${instanceId}/search`);
            // Without sources the model is not called, because it would invent the summary.
            if (found.sources.length > 0) return { emit: charges };
            return { statements: [insertResearch({ ...research, sources: [] })], emit: [completed, ...charges] };
          },
        },
      ),
    );
    // Instances that started before this step existed recorded no prompt, and have already published the research.
    if (sources.length === 0 || prompt === undefined) return { verdict: "requested", research_id: instanceId };

    const by = { tenantId, contentId: instanceId, brand };
    await untilUsable(step, env, by, firstSynthesis({ brand, keyword, sources }, prompt), SYNTHESIS_PROMPT, (asking) =>
      step.effect(
        "synthesize",
        synthesize,
        { ...asking, tenantId, brand },
        {
          key: asking.key,
          record: (outcome) =>
            recordAnswer(outcome, by, asking, (synthesis, paid) => ({
              statements: [insertResearch({ ...research, sources, synthesis }, { prompt: asking.ask.prompt, paid })],
              emit: [completed],
            })),
        },
      ),
    );
    return { verdict: "requested", research_id: instanceId };
  },
});
