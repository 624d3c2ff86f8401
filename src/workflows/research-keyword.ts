import { insertResearch } from "../content/research.ts";
import { defineWorkflow } from "../engine/index.ts";
import { ResearchCompleted, ResearchRequested } from "../messages/research.ts";
import { searchWeb } from "../steps/search-web.ts";

/** Finds sources for a keyword and stores them. */
export const researchKeyword = defineWorkflow({
  name: "research-keyword",
  on: ResearchRequested,
  async run({ payload: { brand, keyword }, step, envelope, instanceId }) {
    await step.effect(
      "search the web",
      searchWeb,
      { query: keyword },
      {
        record: (sources) => ({
          statements: [insertResearch({ id: instanceId, tenantId: envelope.tenant_id, brand, keyword, sources })],
          emit: [ResearchCompleted.from({ research_id: instanceId, brand, keyword })],
        }),
      },
    );
  },
});
