import { micromark } from "micromark";
import { type Article, pagePath } from "../content/articles.ts";
import { renderPage } from "../content/page.ts";
import { defineStep, type EffectCall } from "../engine/index.ts";
import { type Page, pages } from "../providers/index.ts";

const put = defineStep({
  effect: "natural",
  retries: { limit: 2, delay: "2 seconds", backoff: "exponential" },
  run: ({ input, key, signal, env }: EffectCall<Article>) => pages(env).put(pageOf(input), { key, signal }),
});

/** Somebody else's site may be slow, and away for minutes. */
const putUnlessFound = defineStep({
  effect: "lookup",
  timeout: "1 minute",
  run: put.run,
  lookup: ({ input, key, signal, env }: EffectCall<Article>) => pages(env).find(pageOf(input), { key, signal }),
});

/** Puts an article's page up. Where putting it twice would make two pages, the store is asked for the first. */
export const putPage = (env: Cloudflare.Env) => (pages(env).repeatable ? put : putUnlessFound);

function pageOf(article: Article): Page {
  const { slug, title, body } = article;
  return { path: pagePath(article), slug, title, content: micromark(body), document: renderPage(article) };
}
