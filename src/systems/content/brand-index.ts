import { escaped } from "./escape.ts";
import { excerpt } from "./excerpt.ts";
import { dayElement, feedLink, htmlDocument } from "./frame.ts";
import type { LiveArticle } from "./live.ts";

interface IndexPage {
  brand: string;
  articles: readonly LiveArticle[];
  /** The URLs of this index page, the first page, the next page and the feed. */
  self: string;
  first: string;
  older: string | null;
  feed: string;
}

/** Renders a brand's articles as an HTML document. */
export function renderIndex({ brand, articles, self, first, older, feed }: IndexPage): string {
  const ways = [
    ...(self === first ? [] : [`<a href="${escaped(first)}">Newest</a>`]),
    ...(older === null ? [] : [`<a rel="next" href="${escaped(older)}">Older</a>`]),
    `<a href="${escaped(feed)}">Feed</a>`,
  ];
  return htmlDocument({
    title: brand,
    head: [
      `<meta name="description" content="Articles of ${escaped(brand)}">`,
      `<link rel="canonical" href="${escaped(self)}">`,
      feedLink(brand, feed),
    ].join("\n"),
    body: `<main>
<h1>${escaped(brand)}</h1>
${articles.length === 0 ? "<p>Nothing is published here at the moment.</p>" : articles.map(entry).join("\n")}
</main>
<footer><nav aria-label="More">${ways.join(" · ")}</nav></footer>`,
  });
}

function entry({ title, url, publishedAt, beginning, description }: LiveArticle): string {
  return `<article dir="auto">
<h2><a href="${escaped(url)}">${escaped(title)}</a></h2>
<p>${dayElement(publishedAt)}</p>
<p>${escaped(description || excerpt(beginning))}</p>
</article>`;
}
