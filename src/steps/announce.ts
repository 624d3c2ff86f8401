import { defineStep, type EffectCall } from "millrace";
import { recordKey, social } from "../providers/index.ts";
import { announcement } from "../systems/content/announcement.ts";
import { type ArticleKey, loadArticle } from "../systems/content/articles.ts";

/** Which article is to be announced, and when that was asked for (ISO 8601, the same at every attempt). */
export type Announcement = ArticleKey & { createdAt: string };

/** How it ended without an error: posted, or not, because there is no page to announce any more. */
export type Announced = { state: "posted"; uri: string } | { state: "skipped"; why: string };

/**
 * Posts to the brand's social account, under a record key made from ours: posting twice replaces the post by itself. Every attempt
 * looks whether the page is still up, because it may come days after the one before.
 */
export const announce = defineStep({
  effect: "keyed",
  async run({ input: { createdAt, ...key }, key: effectKey, signal, trace, env }: EffectCall<Announcement>): Promise<Announced> {
    const { brand, title, url, status } = await loadArticle(env.DB, key);
    if (status !== "published" || url === null) return { state: "skipped", why: `The article is not up: its status is ${status}.` };
    const post = { text: announcement({ brand, title, url }), createdAt, rkey: await recordKey(createdAt, effectKey) };
    const { uri } = await social(env).post(post, { key: effectKey, signal, trace });
    return { state: "posted", uri };
  },
});
