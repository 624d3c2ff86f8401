import { defineWorkflow } from "millrace";
import { ContentUnpublish, ContentUnpublished } from "../messages/content.ts";
import { removePage } from "../steps/remove-page.ts";
import { markUnpublished } from "../systems/content/article-pages.ts";

/**
 * Removes an article's page from a site independently of the instance that published the page, because that instance may be pruned. The
 * workflow's step is a platform step, because an external site may be slow.
 */
export const unpublishArticle = defineWorkflow({
  name: "unpublish-article",
  on: ContentUnpublish,
  async run({ payload: { content_id, brand, revision, site }, step, envelope }) {
    const article = { tenantId: envelope.tenant_id, id: content_id, brand, revision, site };
    return step.effect("remove page", removePage, article, {
      record: (removed) =>
        removed.state === "skipped" ? {} : { statements: markUnpublished(removed.change), emit: [ContentUnpublished.from(removed.change)] },
    });
  },
});
