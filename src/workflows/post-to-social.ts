import { loadArticle, markAnnounced } from "../content/articles.ts";
import { defineWorkflow } from "../engine/index.ts";
import { SocialCreate, SocialPosted } from "../messages/social.ts";
import { announce } from "../steps/announce.ts";

/** Announces an article on the brand's social account. */
export const postToSocial = defineWorkflow({
  name: "post-to-social",
  on: SocialCreate,
  async run({ payload: { content_id, brand }, step, env, envelope }) {
    const article = await step.read("load article", () => loadArticle(env.DB, envelope.tenant_id, content_id));

    await step.effect(
      "announce",
      announce,
      { text: `New on ${brand}: ${article.title}`, createdAt: envelope.created_at },
      {
        record: ({ uri }) => ({
          statements: [markAnnounced(content_id, uri)],
          emit: [SocialPosted.from({ content_id, brand, uri })],
        }),
      },
    );
  },
});
