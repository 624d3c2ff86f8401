import { defineWorkflow } from "millrace";
import { SocialCreate, SocialPosted } from "../messages/social.ts";
import { announceOn } from "../steps/announce.ts";
import { markAnnounced } from "../systems/content/article-posts.ts";

/**
 * Announces an article's page on one social account of its brand, if the page is still published. The workflow's step is inline, because
 * the step is one short call without an undo handler.
 */
export const postToSocial = defineWorkflow({
  name: "post-to-social",
  on: SocialCreate,
  steps: "inline",
  async run({ payload: { content_id, brand, account, platform }, step, envelope }) {
    const article = { tenantId: envelope.tenant_id, id: content_id };
    return step.effect(
      "announce",
      announceOn[platform],
      { ...article, brand, account, createdAt: envelope.created_at },
      {
        record(announced) {
          if (announced.state === "skipped") return {};
          const { uri, url } = announced;
          return {
            statements: markAnnounced(article, { account, platform, uri, url }),
            emit: [SocialPosted.from({ content_id, brand, account, platform, uri, post_url: url })],
          };
        },
      },
    );
  },
});
