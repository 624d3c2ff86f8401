import { defineWorkflow } from "millrace";
import { ContentPublish, ContentPublished, ContentRejected, ContentUnpublished } from "../messages/content.ts";
import { putPage } from "../steps/put-page.ts";
import { publishQuestion } from "../systems/content/approval.ts";
import { loadArticle, markPublished, markRejected, markUnpublished, nextChange } from "../systems/content/articles.ts";

/**
 * Publishes a draft as a page, after a person's approval if the brand requires it. Its undo removes the page. Its steps are the platform's:
 * it waits for people, and the step with an undo would be one in any case.
 */
export const publishArticle = defineWorkflow({
  name: "publish-article",
  on: ContentPublish,
  async run({ payload: { content_id, brand }, step, env, envelope }) {
    const article = { tenantId: envelope.tenant_id, id: content_id, brand };

    // Recorded and not only read: the brand's settings may change while the run waits, and must not change it.
    const question = await step.commit("see who must agree", async () => ({
      output: await publishQuestion(env.DB, article),
    }));
    const { approved } = question ? await step.approve("agree", question) : { approved: true };
    if (!approved) {
      return step.commit("mark rejected", async () => {
        const found = await loadArticle(env.DB, article);
        // A second request after an approval: a published page is removed by `unpublish`, not by a rejection.
        if (found.status !== "draft") return { output: `It is ${found.status} already.` };
        const rejected = nextChange(found);
        return { statements: [markRejected(rejected)], emit: [ContentRejected.from(rejected)] };
      });
    }

    await step.effect("put page", putPage(env), article, {
      record: (live) => ({ statements: [markPublished(live)], emit: [ContentPublished.from(live)] }),
      undo: (live) => {
        const gone = { ...live, revision: live.revision + 1 };
        return { statements: [markUnpublished(gone)], emit: [ContentUnpublished.from(gone)] };
      },
    });
  },
});
