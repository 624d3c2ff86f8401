import { defineWorkflow } from "millrace";
import { ContentPublish, ContentRejected } from "../messages/content.ts";
import { putPage } from "../steps/put-page.ts";
import { loadArticle, markRejected, nextChange } from "../systems/content/articles.ts";
import { publishPlan } from "../systems/content/publish-plan.ts";
import { toOtherSites, wasPublished, wasRemoved } from "../systems/content/published.ts";

/**
 * Publishes a draft on the sites of its brand, after a person's approval if the brand requires an approval. The workflow itself publishes
 * on the first site. For each other site, an instance of `publish-to-site` publishes the article. The undo removes the page of the first
 * site. The workflow's steps are platform steps, because the workflow waits for an approval and a step with an undo must be a platform
 * step.
 */
export const publishArticle = defineWorkflow({
  name: "publish-article",
  on: ContentPublish,
  async run({ payload: { content_id, brand, update }, step, env, envelope, instanceId }) {
    const article = { tenantId: envelope.tenant_id, id: content_id, brand, update };
    const occasion = envelope.idempotency_key;

    // The plan is recorded in a commit, so that changes of the brand's settings while the run waits do not change the plan.
    const { question, site, others } = await step.commit("see who must agree", async () => {
      const plan = await publishPlan(env.DB, article);
      return { output: plan, emit: plan.question ? [] : toOtherSites(article, plan.others, occasion) };
    });
    if (question) {
      const { approved } = await step.approve("agree", question);
      if (!approved) {
        return step.commit("mark rejected", async () => {
          const found = await loadArticle(env.DB, article);
          // The article may have been published since, by another request. A rejection does not remove a published page; `unpublish` does.
          if (found.status !== "draft") return { output: `It is ${found.status} already.` };
          const rejected = nextChange(found);
          return { statements: [markRejected(rejected)], emit: [ContentRejected.from(rejected)] };
        });
      }
      // The commands for the other sites are sent before the first page is published. Therefore a failure of the first site does not delay
      // the other sites.
      if (others.length > 0) await step.commit("publish on the other sites", () => ({ emit: toOtherSites(article, others, occasion) }));
    }

    if (!site) return "The article is not published any more, so there is no page to update.";
    await step.effect("put page", putPage(env, site.kind), { ...article, site }, { record: wasPublished(instanceId), undo: wasRemoved });
  },
});
