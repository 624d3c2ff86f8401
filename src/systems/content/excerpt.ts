import { bodyHtml } from "./body-html.ts";
import { cut } from "./cut.ts";

const ROOM = { characters: 200, bytes: 2000 };
const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"' };

/** Returns the first paragraph of a Markdown text as plain text, cut to at most 200 characters. */
export function excerpt(markdown: string): string {
  const html = bodyHtml(markdown);
  const paragraph = /<p>(.*?)<\/p>/s.exec(html)?.[1] ?? html;
  // Markup in the Markdown is escaped in the HTML, so a `<` in the HTML is always a generated tag.
  const text = paragraph.replaceAll(/<[^>]*>/g, "").replaceAll(/&(amp|lt|gt|quot);/g, (entity, name) => ENTITIES[name] ?? entity);
  return cut(text.replaceAll(/\s+/g, " ").trim(), ROOM);
}
