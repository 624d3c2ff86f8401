import { DEFAULT_RETRIES, type Done, defineStep, type EffectCall, notRetryable } from "millrace";
import { isRepeatable, type SiteTarget } from "../providers/index.ts";
import { pageAt } from "../systems/content/article-pages.ts";
import { type Article, type ArticleKey, assertPublishable, loadArticleOf } from "../systems/content/articles.ts";
import { type LivePage, livePage, pageOf } from "../systems/content/page.ts";
import { storeOf, takeDown } from "../systems/content/page-store.ts";
import { type BrandSite, brandSite, brandSiteOf } from "../systems/content/sites.ts";

/** An article of a brand, and one of the brand's sites. */
export type SiteArticle = ArticleKey & { brand: string; site: Pick<SiteTarget, "name" | "kind"> };

const remove = defineStep({
  effect: "natural",
  async run({ input: { input, output }, key, signal, trace, env }: EffectCall<Done<SiteArticle, LivePage>>): Promise<unknown> {
    const article = await loadArticleOf(env.DB, input);
    const page = await pageAt(env.DB, article, output.site);
    if (page?.status === "published" && article.edits > (output.edits ?? 0)) {
      throw notRetryable(`The page was updated since, in revision ${page.revision}: use POST /v1/articles/${input.id}/unpublish.`);
    }
    await takeDown(env, await brandSite(env.DB, input, output.site), output, { key, signal, trace });
    return undefined;
  },
});

const put = defineStep({
  effect: "natural",
  // Retried soon, because a person may be waiting, and for four minutes in total, which covers an outage of a minute.
  retries: { limit: 7, delay: "2 seconds", backoff: "exponential" },
  async run(call: EffectCall<SiteArticle>) {
    const { key, signal, trace, env } = call;
    const { article, site } = await current(call);
    assertPublishable(article);
    const store = storeOf(env, site, await keptAt(env, article, site));
    return livePage(article, site, await store.put(pageOf(article, site, env), { key, signal, trace }), store);
  },
  undo: remove,
});

/** An external site may be slow, and unavailable for minutes. */
const putUnlessFound = defineStep({
  ...put,
  effect: "lookup",
  retries: DEFAULT_RETRIES,
  timeout: "1 minute",
  async lookup(call: EffectCall<SiteArticle>) {
    const { key, signal, trace, env } = call;
    const { article, site } = await current(call);
    // Edited since a page may have been put: that page has the older text, and `put` finds and replaces it.
    if (article.edits > 0) return undefined;
    const store = storeOf(env, site, await keptAt(env, article, site));
    const found = await store.find(pageOf(article, site, env), { key, signal, trace });
    return found && livePage(article, site, found, store);
  },
});

/**
 * Publishes an article's page on a site; its undo removes it. If a repeated publication would create two pages, the store is searched
 * first.
 */
export const putPage = (env: Cloudflare.Env, kind: SiteTarget["kind"]) => (isRepeatable(env, kind) ? put : putUnlessFound);

/**
 * The present article and its site. If it was rejected while an earlier attempt published its page, the page is removed here. Errors:
 * `config_invalid` for a site that the brand does not have any more.
 */
async function current({ input, key, signal, trace, env }: EffectCall<SiteArticle>): Promise<{ article: Article; site: BrandSite }> {
  const article = await loadArticleOf(env.DB, input);
  const site = await brandSiteOf(env.DB, input, input.site);
  if (article.status !== "rejected") return { article, site };
  const [page, store] = [pageOf(article, site, env), storeOf(env, site, await keptAt(env, article, site))];
  // WordPress may have scheduled the post: it is not published yet, and is not found.
  if (!store.repeatable || (await store.find(page, { key, signal, trace }))) await takeDown(env, site, page, { key, signal, trace });
  return { article, site };
}

async function keptAt(env: Cloudflare.Env, article: Article, { name }: BrandSite) {
  return { store: (await pageAt(env.DB, article, name))?.store };
}
