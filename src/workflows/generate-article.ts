import { defineWorkflow } from "millrace";
import { ContentGenerated } from "../messages/content.ts";
import { ResearchCompleted } from "../messages/research.ts";
import { recordAnswer, untilUsable } from "../steps/until-usable.ts";
import { writeArticle } from "../steps/write-article.ts";
import { brandStyle } from "../systems/brand/settings.ts";
import { draftArticle, insertDraft } from "../systems/content/articles.ts";
import { firstAsk } from "../systems/content/next-ask.ts";
import { ARTICLE_PROMPT } from "../systems/content/prompts.ts";
import { loadResearch } from "../systems/content/research.ts";

/**
 * Writes an article from a keyword's research and stores it as a draft. Every paid answer of the model is recorded once, with the answer's
 * cost. The workflow's steps are platform steps, because a model is too slow for inline steps.
 */
export const generateArticle = defineWorkflow({
  name: "generate-article",
  on: ResearchCompleted,
  async run({ payload: { research_id, brand, keyword }, step, env, envelope: { tenant_id: tenantId }, instanceId: contentId }) {
    // Prompt and style are recorded with the research, so that a newer deployment or setting does not change a running instance. Instances
    // that were started when only one prompt existed recorded no prompt.
    const {
      prompt = "article.v1",
      style,
      ...research
    } = await step.read("load research", async () => ({
      ...(await loadResearch(env.DB, tenantId, research_id)),
      prompt: ARTICLE_PROMPT,
      style: await brandStyle(env.DB, tenantId, brand),
    }));

    const { key_points = [] } = research.synthesis ?? {};
    const by = { tenantId, contentId, brand };
    await untilUsable(step, env, by, firstAsk(research, prompt, style), ARTICLE_PROMPT, (asking) =>
      step.effect(
        "write article",
        writeArticle,
        { ...asking, tenantId, brand },
        {
          key: asking.key,
          record: (outcome) =>
            recordAnswer(outcome, by, asking, (written, paid) => {
              const draft = draftArticle(contentId, tenantId, brand, keyword, written, key_points);
              const { title, description, wordCount } = draft;
              const told = { title, description, key_points, word_count: wordCount ?? 0 };
              return {
                statements: [insertDraft(draft, { prompt: asking.ask.prompt, template: style?.template, researchId: research_id }, paid)],
                emit: [ContentGenerated.from({ content_id: contentId, brand, keyword, revision: 1, ...told })],
              };
            }),
        },
      ),
    );
  },
});
