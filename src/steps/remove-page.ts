import { defineStep, type EffectCall, notRetryable } from "millrace";
import { type PageChange, pageAt } from "../systems/content/article-pages.ts";
import { type Article, loadArticleOf, nextChange, pagePath } from "../systems/content/articles.ts";
import { takeDown } from "../systems/content/page-store.ts";
import { brandSite } from "../systems/content/sites.ts";

/** An article with a page on a site, and the revision of the published page. */
type Published = Pick<Article, "tenantId" | "id" | "brand" | "revision"> & { site: string };

/** The result of the step: the step removed the page, or the page was already not published any more. */
type Removed = { state: "down"; change: PageChange } | { state: "skipped"; why: string };

/** Removes an article's page from a site, independent of the instance that published the page. */
export const removePage = defineStep({
  effect: "natural",
  async run({ input, key, signal, trace, env }: EffectCall<Published>): Promise<Removed> {
    const article = await loadArticleOf(env.DB, input);
    const page = await pageAt(env.DB, article, input.site);
    if (page?.status !== "published") {
      const said = page === undefined ? `has no page on ${input.site}` : `is ${article.status}: it has no published page on ${input.site}`;
      return { state: "skipped", why: `The article ${said}.` };
    }
    if (page.revision !== input.revision) {
      throw notRetryable(`The page is published in revision ${page.revision}, not ${input.revision}: send content.unpublish for that one.`);
    }
    const site = await brandSite(env.DB, input, input.site);
    await takeDown(env, site, { ...article, store: page.store, path: pagePath(article, input.site) }, { key, signal, trace });
    return { state: "down", change: { ...nextChange(article), site: input.site } };
  },
});
