import { DEFAULT_RETRIES, type Done, defineStep, type EffectCall } from "millrace";
import { pages } from "../providers/index.ts";
import { type Article, type ArticleKey, assertPublishable, loadArticleOf } from "../systems/content/articles.ts";
import { type LivePage, livePage, pageOf } from "../systems/content/page.ts";
import { storeOf, takeDown } from "../systems/content/page-store.ts";

type BrandArticle = ArticleKey & { brand: string };

const remove = defineStep({
  effect: "natural",
  run: ({ input: { output }, key, signal, trace, env }: EffectCall<Done<BrandArticle, LivePage>>): Promise<unknown> =>
    takeDown(env, output, { key, signal, trace }),
});

const put = defineStep({
  effect: "natural",
  // Retried soon, because a person may be waiting, and for four minutes in total, which covers an outage of a minute.
  retries: { limit: 7, delay: "2 seconds", backoff: "exponential" },
  async run(call: EffectCall<BrandArticle>) {
    const { key, signal, trace, env } = call;
    const article = await currentArticle(call);
    assertPublishable(article);
    const store = storeOf(env, article);
    return livePage(article, await store.put(pageOf(article, env), { key, signal, trace }), store);
  },
  undo: remove,
});

/** An external site may be slow, and unavailable for minutes. */
const putUnlessFound = defineStep({
  ...put,
  effect: "lookup",
  retries: DEFAULT_RETRIES,
  timeout: "1 minute",
  async lookup(call: EffectCall<BrandArticle>) {
    const { key, signal, trace, env } = call;
    const article = await currentArticle(call);
    const store = storeOf(env, article);
    const found = await store.find(pageOf(article, env), { key, signal, trace });
    return found && livePage(article, found, store);
  },
});

/** Publishes an article's page; its undo removes it. If a repeated publication would create two pages, the store is searched first. */
export const putPage = (env: Cloudflare.Env) => (isRepeatable(env) ? put : putUnlessFound);

/** The present article. If it was rejected while an attempt of ours published its page, the page is removed here. */
async function currentArticle({ input, key, signal, trace, env }: EffectCall<BrandArticle>): Promise<Article> {
  const article = await loadArticleOf(env.DB, input);
  if (article.status !== "rejected") return article;
  const [page, store] = [pageOf(article, env), storeOf(env, article)];
  // WordPress may have scheduled the post: it is not published yet, and is not found.
  if (!store.repeatable || (await store.find(page, { key, signal, trace }))) await takeDown(env, page, { key, signal, trace });
  return article;
}

function isRepeatable(env: Cloudflare.Env): boolean {
  try {
    return pages(env).repeatable;
  } catch {
    // An invalid configuration of the store is reported by the step itself, where an operator sees it and an undo stops.
    return true;
  }
}
