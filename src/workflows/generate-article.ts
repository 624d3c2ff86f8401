import { draftArticle, insertDraft } from "../content/articles.ts";
import { loadResearch } from "../content/research.ts";
import { defineWorkflow } from "../engine/index.ts";
import { ContentGenerated } from "../messages/content.ts";
import { ResearchCompleted } from "../messages/research.ts";
import { writeArticle } from "../steps/write-article.ts";

/** Writes an article from a keyword's research and stores it as a draft. */
export const generateArticle = defineWorkflow({
  name: "generate-article",
  on: ResearchCompleted,
  async run({ payload: { research_id, brand, keyword }, step, env, envelope, instanceId }) {
    const research = await step.read("load research", () => loadResearch(env.DB, envelope.tenant_id, research_id));

    await step.effect("write article", writeArticle, research, {
      record: (written) => ({
        statements: [insertDraft(draftArticle(instanceId, envelope.tenant_id, brand, keyword, written), written)],
        emit: [ContentGenerated.from({ content_id: instanceId, brand, keyword, revision: 1 })],
      }),
    });
  },
});
