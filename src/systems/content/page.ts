import { MAIN } from "../../messages/targets.ts";
import { type Page, type Pages, type PublishedPage, pageAddress } from "../../providers/index.ts";
import { siteAddresses } from "./addresses.ts";
import type { PageChange } from "./article-pages.ts";
import { type Article, nextChange, pagePath } from "./articles.ts";
import { bodyHtml } from "./body-html.ts";
import { escaped } from "./escape.ts";
import { excerpt } from "./excerpt.ts";
import { dayElement, feedLink, htmlDocument } from "./frame.ts";
import type { BrandSite } from "./sites.ts";

/**
 * A published page: the article's change and the page's location. `again` means that the page was published on this site before. `update`
 * means that the page replaces a page that must still be published.
 */
export type LivePage = PageChange &
  Pick<Page, "path" | "slug"> &
  Pick<Pages, "store" | "kind"> & { url: string; place: number; edits?: number; again?: boolean; update?: boolean };

/** Returns the site of a published page. Step outputs of older releases do not name the site. */
export function siteOf({ site }: { site?: string }): string {
  return site ?? MAIN;
}

/** The result of a publication: the page, or the reason why there was no page to publish. */
export type PutPage = LivePage | { why: string };

interface PageAddresses {
  /** The URL of the page; undefined if the store assigns the URL at the publication. */
  self: string | undefined;
  /** The URLs of the site's index and its feed. */
  index: string;
  feed: string;
}

/**
 * Prepares an article for the page store of a site, with the date of the first publication, or today's date before the first publication.
 */
export function pageOf(article: Article, { name: site, kind }: BrandSite, env: Cloudflare.Env): Page {
  const path = pagePath(article, site);
  const addresses = { self: pageAddress(env, kind, path), ...siteAddresses(env, { ...article, site }) };
  return {
    path,
    slug: article.slug,
    title: article.title,
    content: bodyHtml(article.body),
    document: renderPage(article, addresses, article.publishedAt ?? Date.now()),
  };
}

export function livePage(
  article: Article,
  { name: site, place }: BrandSite,
  { url }: PublishedPage,
  { store, kind }: Pages,
  how: Pick<LivePage, "again" | "update">,
): LivePage {
  const { slug, edits } = article;
  return { ...nextChange(article), site, place, kind, path: pagePath(article, site), slug, edits, store, url, ...how };
}

/** Renders an article as an HTML document, with the date of the given time of publication (in milliseconds). */
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
