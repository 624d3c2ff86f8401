import { defineWorkflow } from "millrace";
import { ContentUnpublish, ContentUnpublished } from "../messages/content.ts";
import { removePage } from "../steps/remove-page.ts";
import { markUnpublished } from "../systems/content/articles.ts";

/**
 * Takes an article's page down without the instance that put it up, which may be long gone. Its step is the platform's: somebody else's site
 * may be slow.
 */
export const unpublishArticle = defineWorkflow({
  name: "unpublish-article",
  on: ContentUnpublish,
  async run({ payload: { content_id, brand, revision }, step, envelope }) {
    const article = { tenantId: envelope.tenant_id, id: content_id, brand, revision };
    return step.effect("remove page", removePage, article, {
      record: (removed) =>
        removed.state === "skipped"
          ? {}
          : { statements: [markUnpublished(removed.change)], emit: [ContentUnpublished.from(removed.change)] },
    });
  },
});
