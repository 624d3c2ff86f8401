import { defineStep, type EffectCall } from "millrace";
import { recordKey, social } from "../providers/index.ts";
import { announcement } from "../systems/content/announcement.ts";
import { type ArticleKey, loadArticle } from "../systems/content/articles.ts";

/** The article, and the time of the request (ISO 8601, the same at every attempt). */
export type Announcement = ArticleKey & { createdAt: string };

/** The result: posted, or skipped because the page is no longer published. */
export type Announced = { state: "posted"; uri: string } | { state: "skipped"; why: string };

/**
 * Posts to the brand's social account, with a record key derived from ours, so that a repetition replaces the post. Every attempt checks
 * that the page is still published, because it may run days after the previous one.
 */
export const announce = defineStep({
  effect: "keyed",
  async run({ input: { createdAt, ...key }, key: effectKey, signal, trace, env }: EffectCall<Announcement>): Promise<Announced> {
    const { brand, title, url, status } = await loadArticle(env.DB, key);
    if (status !== "published" || url === null) return { state: "skipped", why: `The article is not published: its status is ${status}.` };
    const post = { text: announcement({ brand, title, url }), createdAt, rkey: await recordKey(createdAt, effectKey) };
    const { uri } = await social(env).post(post, { key: effectKey, signal, trace });
    return { state: "posted", uri };
  },
});
