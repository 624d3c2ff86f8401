import { loadArticle, markPublished } from "../content/articles.ts";
import { defineWorkflow } from "../engine/index.ts";
import { ContentPublish, ContentPublished } from "../messages/content.ts";
import { putPage } from "../steps/put-page.ts";

/** Publishes a draft as a page and says where it is. */
export const publishArticle = defineWorkflow({
  name: "publish-article",
  on: ContentPublish,
  async run({ payload: { content_id, brand }, step, env, envelope }) {
    const article = await step.read("load article", () => loadArticle(env.DB, envelope.tenant_id, content_id));

    await step.effect("put page", putPage(env), article, {
      record: ({ url }) => ({
        statements: [markPublished(article, url)],
        emit: [ContentPublished.from({ content_id, brand, keyword: article.keyword, revision: article.revision + 1, url })],
      }),
    });
  },
});
