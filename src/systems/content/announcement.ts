import type { Article } from "./articles.ts";
import { characterCount, cut } from "./cut.ts";

/** What the lexicon `app.bsky.feed.post` allows a post's text: characters as people count them, and bytes. */
const POST = { characters: 300, bytes: 3000 };
/** A title that would be cut to less says nothing. */
const TITLE_CHARACTERS = 20;

/** What is posted about an article: its title, cut where it must be, and its page's address, whole. */
export function announcement({ brand, title, url }: Pick<Article, "brand" | "title"> & { url: string }): string {
  const bytes = (text: string) => new TextEncoder().encode(text).byteLength;
  const [before, after] = [`New on ${brand}: `, ` ${url}`];
  const room = {
    characters: POST.characters - characterCount(before + after),
    bytes: POST.bytes - bytes(before + after),
  };
  const line = title.replaceAll(/\s+/g, " ").trim();
  // An address so long that it leaves no room for a title would be cut too, and lead nowhere.
  if (room.characters < TITLE_CHARACTERS) return cut(before + line, POST);
  return before + cut(line, room) + after;
}
