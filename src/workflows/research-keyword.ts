import { assertReusable, insertResearch } from "../content/research.ts";
import { defineWorkflow } from "../engine/index.ts";
import { ResearchCompleted, ResearchRequested } from "../messages/research.ts";
import { searchWeb } from "../steps/search-web.ts";

/** Finds sources for a keyword and stores them; or hands on research that is there. */
export const researchKeyword = defineWorkflow({
  name: "research-keyword",
  on: ResearchRequested,
  async run({ payload: { brand, keyword, reuse }, step, env, envelope: { tenant_id: tenantId }, instanceId }) {
    if (reuse !== undefined) {
      await step.commit("hand research on", async () => {
        await assertReusable(env.DB, { id: reuse, tenantId, brand, keyword });
        return { emit: [ResearchCompleted.from({ research_id: reuse, brand, keyword })] };
      });
      return;
    }

    await step.effect(
      "search the web",
      searchWeb,
      { query: keyword },
      {
        record: (sources) => ({
          statements: [insertResearch({ id: instanceId, tenantId, brand, keyword, sources })],
          emit: [ResearchCompleted.from({ research_id: instanceId, brand, keyword })],
        }),
      },
    );
  },
});
