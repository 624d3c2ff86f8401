import { type Article, pagePath } from "../content/articles.ts";
import { renderPage } from "../content/page.ts";
import { defineStep, type EffectCall } from "../engine/index.ts";
import { pages } from "../providers/index.ts";

/** Puts an article's page up. The same page under the same path may be put twice. */
export const putPage = defineStep({
  effect: "natural",
  retries: { limit: 2, delay: "2 seconds", backoff: "exponential" },
  run: ({ input, key, signal, env }: EffectCall<Article>) =>
    pages(env).put(
      { path: pagePath(input), slug: input.slug, title: input.title, content: "", document: renderPage(input) },
      { key, signal },
    ),
});
