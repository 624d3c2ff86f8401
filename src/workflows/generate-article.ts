import { defineWorkflow } from "millrace";
import { ContentGenerated } from "../messages/content.ts";
import { ResearchCompleted } from "../messages/research.ts";
import { onceAffordable } from "../steps/await-room.ts";
import { chargesOf } from "../steps/ceiling.ts";
import { requireRetry } from "../steps/require-retry.ts";
import { writeArticle } from "../steps/write-article.ts";
import { draftArticle, insertDraft } from "../systems/content/articles.ts";
import { firstAsk, mayAskAgain, nextAsk } from "../systems/content/next-ask.ts";
import { ARTICLE_PROMPT } from "../systems/content/prompts.ts";
import { loadResearch } from "../systems/content/research.ts";
import { insertTextCall, type Paid } from "../systems/content/text-calls.ts";

/**
 * Writes an article from a keyword's research and stores it as a draft. Every paid answer is recorded once with its cost. An unusable
 * answer is requested once more if that may help. Then the instance fails until an operator retries it, and each retry pays for one more
 * answer. Its steps are the platform's: a model is too slow for inline steps.
 */
export const generateArticle = defineWorkflow({
  name: "generate-article",
  on: ResearchCompleted,
  async run({ payload: { research_id, brand, keyword }, step, env, envelope: { tenant_id: tenantId }, instanceId: contentId }) {
    // The prompt is recorded with the research, so that a newer deployment does not change a running instance. Instances from the time of a
    // single prompt recorded none.
    const { prompt = "article.v1", ...research } = await step.read("load research", async () => ({
      ...(await loadResearch(env.DB, tenantId, research_id)),
      prompt: ARTICLE_PROMPT,
    }));

    let ask = firstAsk(research, prompt);
    const paid: Paid[] = [];
    for (let attempt = 1; ; attempt++) {
      const nth = attempt === 1 ? "" : String(attempt);
      const written = await onceAffordable(step, nth, (key, isLast) =>
        step.effect(
          "write article",
          writeArticle,
          { ask, tenantId, brand, isLast },
          {
            key,
            record(outcome) {
              if ("refused" in outcome) return {};
              const { maxTokens, prompt } = ask;
              const call = { tenantId, contentId, attempt, brand, prompt, maxTokens, paid: outcome.paid };
              const charges = chargesOf(outcome.spent, `${contentId}/text/${attempt}`);
              if ("bad" in outcome) return { statements: [insertTextCall({ ...call, outcome: outcome.bad })], emit: charges };
              const draft = draftArticle(contentId, tenantId, brand, keyword, outcome.article);
              return {
                statements: [insertTextCall({ ...call, outcome: "written" }), insertDraft(draft, prompt, [...paid, outcome.paid])],
                emit: [ContentGenerated.from({ content_id: contentId, brand, keyword, revision: 1 }), ...charges],
              };
            },
          },
        ),
      );
      if (!("bad" in written)) return;

      paid.push(written.paid);
      const { bad, problem } = written;
      let next = ask.prompt;
      if (!mayAskAgain(attempt, bad)) {
        // A separate step: a retry continues from here, after the prompt may have been fixed.
        next = await step.read(
          "ask again",
          async () => {
            await requireRetry(env, { tenantId, contentId, attempt, bad, problem });
            return ARTICLE_PROMPT;
          },
          { key: String(attempt) },
        );
      }
      ask = nextAsk(ask, written, next);
    }
  },
});
