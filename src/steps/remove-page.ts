import { defineStep, type EffectCall, notRetryable } from "millrace";
import { type Article, type ArticleChange, loadArticleOf, nextChange, pagePath } from "../systems/content/articles.ts";
import { takeDown } from "../systems/content/page-store.ts";

/** An article with a page published in this revision. */
type Published = Pick<Article, "tenantId" | "id" | "brand" | "revision">;

/** The result: the page was removed, or was not published any more. */
type Removed = { state: "down"; change: ArticleChange } | { state: "skipped"; why: string };

/** Removes an article's page, whichever instance published it. */
export const removePage = defineStep({
  effect: "natural",
  async run({ input, key, signal, trace, env }: EffectCall<Published>): Promise<Removed> {
    const article = await loadArticleOf(env.DB, input);
    if (article.status !== "published") return { state: "skipped", why: `The article is ${article.status}: it has no published page.` };
    if (article.revision !== input.revision) {
      throw notRetryable(
        `The page is published in revision ${article.revision}, not ${input.revision}: send content.unpublish for that one.`,
      );
    }
    await takeDown(env, { ...article, path: pagePath(article) }, { key, signal, trace });
    return { state: "down", change: nextChange(article) };
  },
});
