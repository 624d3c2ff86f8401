import type { Platform } from "../../messages/targets.ts";
import { MASTODON_CHARACTERS, mastodonLength, X_CHARACTERS, xLength, xWeight } from "../../providers/index.ts";
import type { Article } from "./articles.ts";
import { characterCount, cut } from "./cut.ts";

/** The limits of a post's text, and how a platform counts: a whole text, and one grapheme cluster of it. */
interface Limits {
  characters: number;
  /** In UTF-8. */
  bytes: number;
  lengthOf(text: string): number;
  weigh(cluster: string): number;
  /** True if a name behind an @ becomes a mention. */
  mentions: boolean;
}

const one = () => 1;
const LIMITS: Record<Platform, Limits> = {
  /** The lexicon `app.bsky.feed.post`. A mention needs a facet there. */
  bluesky: { characters: 300, bytes: 3000, lengthOf: characterCount, weigh: one, mentions: false },
  mastodon: { characters: MASTODON_CHARACTERS, bytes: Number.POSITIVE_INFINITY, lengthOf: mastodonLength, weigh: one, mentions: true },
  x: { characters: X_CHARACTERS, bytes: Number.POSITIVE_INFINITY, lengthOf: xLength, weigh: xWeight, mentions: true },
};
/** Shortest useful title. */
const TITLE_CHARACTERS = 20;

/** The post about an article: its title, cut if necessary, and its page's whole URL. */
export function announcement(
  { brand, title, url }: Pick<Article, "brand" | "title"> & { url: string },
  platform: Platform = "bluesky",
): string {
  const { characters, bytes, lengthOf, weigh, mentions } = LIMITS[platform];
  const byteCount = (text: string) => new TextEncoder().encode(text).byteLength;
  const [before, after] = [`New on ${brand}: `, ` ${url}`];
  const line = (mentions ? withoutMentions(title) : title).replaceAll(/\s+/g, " ").trim();
  const fits = (text: string) => Math.max(lengthOf(text) - characters, byteCount(text) - bytes);

  // Links within the title count for more than their characters, so the room may shrink.
  for (let room = characters - lengthOf(before + after); room >= TITLE_CHARACTERS; ) {
    const text = before + cut(line, { characters: room, bytes: bytes - byteCount(before + after), weigh }) + after;
    const over = fits(text);
    if (over <= 0) return text;
    room -= over;
  }
  // If the URL leaves no room for a title, it would be cut too and lead nowhere.
  const only = cut(before + line, { characters, bytes, weigh });
  return fits(only) <= 0 ? only : `New on ${brand}${after}`;
}

/** A zero-width space behind each @, so that a title by a model notifies no account of a stranger. */
function withoutMentions(title: string): string {
  return title.replaceAll(/[@＠](?=[\p{L}\p{N}_])/gu, "$&\u200b");
}
