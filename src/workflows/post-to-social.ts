import { defineWorkflow } from "millrace";
import { SocialCreate, SocialPosted } from "../messages/social.ts";
import { announce } from "../steps/announce.ts";
import { markAnnounced } from "../systems/content/articles.ts";

/**
 * Announces an article's page on the brand's social account, if it is still published. Its step is inline: it is one short call without an
 * undo.
 */
export const postToSocial = defineWorkflow({
  name: "post-to-social",
  on: SocialCreate,
  steps: "lean",
  async run({ payload: { content_id, brand }, step, envelope }) {
    const article = { tenantId: envelope.tenant_id, id: content_id };
    return step.effect(
      "announce",
      announce,
      { ...article, createdAt: envelope.created_at },
      {
        record: (announced) =>
          announced.state === "skipped"
            ? {}
            : {
                statements: [markAnnounced(article, announced.uri)],
                emit: [SocialPosted.from({ content_id, brand, uri: announced.uri })],
              },
      },
    );
  },
});
