import type { Article } from "./articles.ts";
import { characterCount, cut } from "./cut.ts";

/** The limits of a post's text in the lexicon `app.bsky.feed.post`: grapheme clusters and bytes. */
const POST = { characters: 300, bytes: 3000 };
/** Shortest useful title. */
const TITLE_CHARACTERS = 20;

/** The post about an article: its title, cut if necessary, and its page's whole URL. */
export function announcement({ brand, title, url }: Pick<Article, "brand" | "title"> & { url: string }): string {
  const bytes = (text: string) => new TextEncoder().encode(text).byteLength;
  const [before, after] = [`New on ${brand}: `, ` ${url}`];
  const room = {
    characters: POST.characters - characterCount(before + after),
    bytes: POST.bytes - bytes(before + after),
  };
  const line = title.replaceAll(/\s+/g, " ").trim();
  // If the URL leaves no room for a title, it would be cut too and lead nowhere.
  if (room.characters < TITLE_CHARACTERS) return cut(before + line, POST);
  return before + cut(line, room) + after;
}
