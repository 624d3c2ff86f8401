import { micromark } from "micromark";
import { printable } from "./escape.ts";

/**
 * A Markdown text as an HTML fragment that stands below a title. It came from a model: micromark escapes any HTML in it and refuses unsafe
 * links, so that a tag in what it made is always its own.
 */
export function bodyHtml(markdown: string): string {
  return namedLinks(orderedHeadings(micromark(printable(markdown))));
}

/** Headings as an outline below the title's `h1`: none is a second title, leaves a level out, or is empty. */
function orderedHeadings(html: string): string {
  let last = 1;
  return html.replaceAll(/<h([1-6])>(.*?)<\/h\1>\n?/gs, (_, written, content) => {
    if (content === "") return "";
    last = Math.min(Math.max(Number(written), 2), last + 1);
    return `<h${last}>${content}</h${last}>\n`;
  });
}

/** Links that hold nothing, or a picture without words, are called by their address: who cannot see them hears where they lead. */
function namedLinks(html: string): string {
  return html.replaceAll(/<a href="([^"]*)"([^>]*)>(<img [^>]*alt=""[^>]*>)?<\/a>/g, (_, href, more, image = "") => {
    if (href === "") return image;
    return `<a href="${href}"${more}>${image ? image.replace('alt=""', () => `alt="${href}"`) : href}</a>`;
  });
}
