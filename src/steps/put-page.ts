import { defineStep, type EffectCall, notRetryable } from "millrace";
import { isRepeatable, type Pages, type SiteTarget } from "../providers/index.ts";
import { type ArticlePage, pageAt } from "../systems/content/article-pages.ts";
import { type Article, type ArticleKey, assertPublishable, loadArticleOf } from "../systems/content/articles.ts";
import { livePage, type PutPage, pageOf, siteOf } from "../systems/content/page.ts";
import { storeOf, takeDown } from "../systems/content/page-store.ts";
import { type BrandSite, brandSite, brandSiteOf } from "../systems/content/sites.ts";

/**
 * An article of a brand, and one of the brand's sites. With `update`, the step writes the page only while the article's page on that site
 * is published.
 */
export type SiteArticle = ArticleKey & { brand: string; site: Pick<SiteTarget, "name" | "kind">; update?: boolean | undefined };

const remove = defineStep({
  effect: "natural",
  async run({ input: { input, output }, key, signal, trace, env }: EffectCall<{ input: SiteArticle; output: PutPage }>): Promise<unknown> {
    if ("why" in output) return undefined;
    const article = await loadArticleOf(env.DB, input);
    const page = await pageAt(env.DB, article, siteOf(output));
    if (page?.status === "published" && page.revision !== output.revision) {
      throw notRetryable(
        `The page was published again or updated since, in revision ${page.revision}: use POST /v1/articles/${input.id}/unpublish.`,
      );
    }
    await takeDown(env, await brandSite(env.DB, input, siteOf(output)), output, { key, signal, trace });
    return undefined;
  },
});

const put = defineStep({
  effect: "natural",
  // The step is retried soon, because a person may be waiting, and retries continue for four minutes, which is longer than an outage of a
  // minute.
  retries: { limit: 7, delay: "2 seconds", backoff: "exponential" },
  async run(call: EffectCall<SiteArticle>): Promise<PutPage> {
    const { input, key, signal, trace, env } = call;
    const { article, site, page, store } = await current(call);
    assertPublishable(article);
    if (isStale(input, page)) return { why: `The article has no published page on ${site.name} any more, so there is none to update.` };
    const put = await store.put(pageOf(article, site, env), { key, signal, trace });
    return livePage(article, site, put, store, { again: page !== undefined, update: input.update === true });
  },
  undo: remove,
});

/** An external site may be slow, and may be unavailable for minutes. */
const putUnlessFound = defineStep({
  ...put,
  effect: "lookup",
  retries: { limit: 5, delay: "10 seconds", backoff: "exponential" },
  timeout: "1 minute",
  async lookup(call: EffectCall<SiteArticle>): Promise<PutPage | undefined> {
    const { key, signal, trace, env } = call;
    const { article, site, page, store } = await current(call);
    // After an edit of the article, a page from an earlier attempt has the older text. In this case `put` finds and replaces that page.
    if (article.edits > 0) return undefined;
    const found = await store.find(pageOf(article, site, env), { key, signal, trace });
    return found && livePage(article, site, found, store, { again: page !== undefined, update: false });
  },
});

/**
 * Publishes an article's page on a site. The undo of the step removes the page. If a repeated publication would create two pages, the step
 * first searches the store.
 */
export const putPage = (env: Cloudflare.Env, kind: SiteTarget["kind"]) => (isRepeatable(env, kind) ? put : putUnlessFound);

/** The present data of an article and its site, and the article's page on the site. */
interface Current {
  article: Article;
  site: BrandSite;
  page: ArticlePage | undefined;
  store: Pages;
}

/**
 * Reads an article, the site, and the article's page on that site. If the article was rejected or unpublished while an earlier attempt
 * wrote the page, the function removes the page. Errors: `config_invalid` if the brand does not have this site any more.
 */
async function current({ input, key, signal, trace, env }: EffectCall<SiteArticle>): Promise<Current> {
  const article = await loadArticleOf(env.DB, input);
  const site = await brandSiteOf(env.DB, input, input.site);
  const page = await pageAt(env.DB, article, site.name);
  const store = storeOf(env, site, { store: page?.store });
  if (article.status === "rejected" || isStale(input, page)) {
    const gone = pageOf(article, site, env);
    // WordPress may have scheduled the post. A scheduled post is not published yet, so the search does not find such a post.
    if (!store.repeatable || (await store.find(gone, { key, signal, trace }))) await takeDown(env, site, gone, { key, signal, trace });
  }
  return { article, site, page, store };
}

/** True for an update of a page that is not published any more. */
function isStale({ update }: SiteArticle, page: ArticlePage | undefined): boolean {
  return update === true && page?.status !== "published";
}
