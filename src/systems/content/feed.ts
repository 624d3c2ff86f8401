import { escaped } from "./escape.ts";
import { excerpt } from "./excerpt.ts";
import type { LiveArticle } from "./live.ts";

interface Feed {
  brand: string;
  articles: readonly LiveArticle[];
  /** The URLs of the brand's index and of the feed itself. */
  index: string;
  self: string;
}

/** Maximum number of articles in a feed. A feed contains the newest articles. */
export const FEED_ARTICLES = 50;

/**
 * Renders a brand's newest articles as RSS 2.0 (https://www.rssboard.org/rss-specification), with the feed's own URL, as the RSS
 * best-practices profile recommends.
 */
export function renderFeed({ brand, articles, index, self }: Feed): string {
  return `<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom">
<channel>
<title>${escaped(brand)}</title>
<link>${escaped(index)}</link>
<description>Articles of ${escaped(brand)}</description>
<atom:link href="${escaped(self)}" rel="self" type="application/rss+xml"/>
${articles.map(item).join("")}</channel>
</rss>
`;
}

/**
 * The item's id identifies the article for feed readers. The id of an article does not change when the article's page is removed and
 * published again.
 */
function item({ id, title, url, publishedAt, description, beginning }: LiveArticle): string {
  return `<item>
<title>${escaped(title)}</title>
<link>${escaped(url)}</link>
<guid isPermaLink="false">${escaped(id)}</guid>
<pubDate>${new Date(publishedAt).toUTCString()}</pubDate>
<description>${escaped(description || excerpt(beginning))}</description>
</item>
`;
}
