import type { Platform } from "../../messages/targets.ts";
import { MASTODON_CHARACTERS, mastodonLength, X_CHARACTERS, xLength, xWeight } from "../../providers/index.ts";
import type { Article } from "./articles.ts";
import { characterCount, cut } from "./cut.ts";

/** The limits of a post on one platform, and the functions by which the platform counts a whole text or one grapheme cluster. */
interface Limits {
  characters: number;
  /** The limit of a post in bytes of UTF-8. */
  bytes: number;
  lengthOf(text: string): number;
  weigh(cluster: string): number;
  /** True if this platform turns a name after an @ into a mention. */
  mentions: boolean;
}

const one = () => 1;
const LIMITS: Record<Platform, Limits> = {
  /** The limits of Bluesky are in the lexicon `app.bsky.feed.post`. On Bluesky a mention needs a facet. */
  bluesky: { characters: 300, bytes: 3000, lengthOf: characterCount, weigh: one, mentions: false },
  mastodon: { characters: MASTODON_CHARACTERS, bytes: Number.POSITIVE_INFINITY, lengthOf: mastodonLength, weigh: one, mentions: true },
  x: { characters: X_CHARACTERS, bytes: Number.POSITIVE_INFINITY, lengthOf: xLength, weigh: xWeight, mentions: true },
};
/** Minimum characters of a useful title in a post. */
const TITLE_CHARACTERS = 20;

/** Minimum characters of a useful description in a post. */
const DESCRIPTION_CHARACTERS = 40;

/** The data of the article that a post announces. */
export type AnnouncementContext = Pick<Article, "brand" | "title"> &
  Partial<Pick<Article, "description" | "keyPoints" | "wordCount">> & { url: string };

/** Composes the post about an article. The post has the title, cut if necessary, the description if it fits, and the page's whole URL. */
export function announcement({ brand, title, description = "", url }: AnnouncementContext, platform: Platform = "bluesky"): string {
  const { characters, bytes, lengthOf, weigh, mentions } = LIMITS[platform];
  const byteCount = (text: string) => new TextEncoder().encode(text).byteLength;
  const excess = (text: string) => Math.max(lengthOf(text) - characters, byteCount(text) - bytes);
  const oneLine = (text: string) => (mentions ? withoutMentions(text) : text).replaceAll(/\s+/g, " ").trim();
  /**
   * Shortens `line` so that the post `before + line + after` is within the limits. The result is undefined if the limits leave fewer than
   * `least` characters for the line.
   */
  const fitted = (before: string, line: string, after: string, least: number) => {
    // A platform may count a link in the line as longer than its text. The loop then reduces the room.
    for (let room = characters - lengthOf(before + after); room >= least; ) {
      const text = before + cut(line, { characters: room, bytes: bytes - byteCount(before + after), weigh }) + after;
      const over = excess(text);
      if (over <= 0) return text;
      room -= over;
    }
    return undefined;
  };

  const [before, after, line, said] = [`New on ${brand}: `, ` ${url}`, oneLine(title), oneLine(description)];
  const short = fitted(before, line, after, TITLE_CHARACTERS);
  if (short !== undefined) {
    const isWhole = short === before + line + after;
    return (isWhole && said !== "" && fitted(`${before}${line}\n\n`, said, after, DESCRIPTION_CHARACTERS)) || short;
  }
  // If the post has no room for a title, a cut would also shorten the URL and make the URL invalid.
  const only = cut(before + line, { characters, bytes, weigh });
  return excess(only) <= 0 ? only : `New on ${brand}${after}`;
}

/** Inserts a zero-width space after each @, so that a text by a model notifies no account of a stranger. */
function withoutMentions(text: string): string {
  return text.replaceAll(/[@＠](?=[\p{L}\p{N}_])/gu, "$&\u200b");
}
