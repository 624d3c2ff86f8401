import { type Page, type Pages, type PublishedPage, pageAddress } from "../../providers/index.ts";
import { brandAddresses } from "./addresses.ts";
import { type Article, type ArticleChange, nextChange, pagePath } from "./articles.ts";
import { bodyHtml } from "./body-html.ts";
import { escaped } from "./escape.ts";
import { excerpt } from "./excerpt.ts";
import { dayElement, feedLink, htmlDocument } from "./frame.ts";

/** A published page: the article's change and the page's location. */
export type LivePage = ArticleChange & Pick<Page, "path" | "slug"> & Pick<Pages, "store"> & { url: string };

interface PageAddresses {
  /** The page's own URL; undefined if only the store knows it, after the publication. */
  self: string | undefined;
  /** The brand's index and its feed. */
  index: string;
  feed: string;
}

/** An article for a page store, dated by its first publication or today. */
export function pageOf(article: Article, env: Cloudflare.Env): Page {
  const path = pagePath(article);
  const addresses = { self: pageAddress(env, path), ...brandAddresses(env, article) };
  return {
    path,
    slug: article.slug,
    title: article.title,
    content: bodyHtml(article.body),
    document: renderPage(article, addresses, article.publishedAt ?? Date.now()),
  };
}

export function livePage(article: Article, { url }: PublishedPage, { store }: Pick<Pages, "store">): LivePage {
  return { ...nextChange(article), path: pagePath(article), slug: article.slug, store, url };
}

/** An article as an HTML document, with the date of its publication (time in milliseconds). */
function renderPage({ title, description: written, body, brand }: Article, { self, index, feed }: PageAddresses, at: number): string {
  const description = written || excerpt(body);
  const property = (name: string, content: string) => `<meta property="${name}" content="${escaped(content)}">`;
  const head = [
    `<meta name="description" content="${escaped(description)}">`,
    ...(self ? [`<link rel="canonical" href="${escaped(self)}">`, property("og:url", self)] : []),
    feedLink(brand, feed),
    property("og:type", "article"),
    property("og:site_name", brand),
    property("og:title", title),
    property("og:description", description),
    property("article:published_time", new Date(at).toISOString().slice(0, 10)),
  ];
  return htmlDocument({
    title: `${title} · ${brand}`,
    head: head.join("\n"),
    body: `<header><a href="${escaped(index)}">${escaped(brand)}</a></header>
<main>
<article dir="auto">
<h1>${escaped(title)}</h1>
<p>${dayElement(at)}</p>
${bodyHtml(body)}
</article>
</main>
<footer><nav aria-label="More"><a href="${escaped(index)}">All of ${escaped(brand)}</a> · <a href="${escaped(feed)}">Feed</a></nav></footer>`,
  });
}
