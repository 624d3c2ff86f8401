import { micromark } from "micromark";
import { printable } from "./escape.ts";

/**
 * Converts an article's Markdown to an HTML fragment for a page whose title is an `h1`. A model has written the Markdown. Therefore
 * micromark escapes HTML in the Markdown and removes unsafe links, so that micromark itself has produced all tags of the result.
 */
export function bodyHtml(markdown: string): string {
  return namedLinks(orderedHeadings(micromark(printable(markdown))));
}

/**
 * Changes the levels of headings so that they follow the title's `h1` without a second `h1` and without skipped levels. Empty headings are
 * removed.
 */
function orderedHeadings(html: string): string {
  let last = 1;
  return html.replaceAll(/<h([1-6])>(.*?)<\/h\1>\n?/gs, (_, written, content) => {
    if (content === "") return "";
    last = Math.min(Math.max(Number(written), 2), last + 1);
    return `<h${last}>${content}</h${last}>\n`;
  });
}

/** Gives each link without text its URL as a name for screen readers. */
function namedLinks(html: string): string {
  return html.replaceAll(/<a href="([^"]*)"([^>]*)>(<img [^>]*alt=""[^>]*>)?<\/a>/g, (_, href, more, image = "") => {
    if (href === "") return image;
    return `<a href="${href}"${more}>${image ? image.replace('alt=""', () => `alt="${href}"`) : href}</a>`;
  });
}
