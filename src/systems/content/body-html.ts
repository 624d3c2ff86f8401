import { micromark } from "micromark";
import { printable } from "./escape.ts";

/**
 * Converts an article's Markdown to an HTML fragment below a title. The Markdown comes from a model: micromark escapes its HTML and refuses
 * unsafe links, so all tags in the result are micromark's own.
 */
export function bodyHtml(markdown: string): string {
  return namedLinks(orderedHeadings(micromark(printable(markdown))));
}

/** Orders headings below the title's `h1`: no second title, no skipped level, no empty heading. */
function orderedHeadings(html: string): string {
  let last = 1;
  return html.replaceAll(/<h([1-6])>(.*?)<\/h\1>\n?/gs, (_, written, content) => {
    if (content === "") return "";
    last = Math.min(Math.max(Number(written), 2), last + 1);
    return `<h${last}>${content}</h${last}>\n`;
  });
}

/** Gives links without text a name, their URL, for screen readers. */
function namedLinks(html: string): string {
  return html.replaceAll(/<a href="([^"]*)"([^>]*)>(<img [^>]*alt=""[^>]*>)?<\/a>/g, (_, href, more, image = "") => {
    if (href === "") return image;
    return `<a href="${href}"${more}>${image ? image.replace('alt=""', () => `alt="${href}"`) : href}</a>`;
  });
}
