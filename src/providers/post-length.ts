const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** Mastodon and X count a link of any length as this many characters. */
const LINK = 23;
const LINKS = /https?:\/\/[^\s]+/g;

/** Maximum number of characters of a post on Mastodon. Some servers allow more. */
export const MASTODON_CHARACTERS = 500;

/** Returns the length of a post on Mastodon in grapheme clusters. A link counts as 23 clusters. */
export function mastodonLength(text: string): number {
  return Array.from(graphemes.segment(text.replaceAll(LINKS, "x".repeat(LINK)))).length;
}

/** Maximum length of a post on X, as `xLength` computes the length. */
export const X_CHARACTERS = 280;

/**
 * Ranges of the code points that count as one character on X, by the configuration v3 of twitter-text. All other code points count as two
 * characters.
 */
const LIGHT: readonly (readonly [number, number])[] = [
  [0, 4351],
  [8192, 8205],
  [8208, 8223],
  [8242, 8247],
];
const EMOJI = /^\p{RGI_Emoji}$/v;
/**
 * X also turns domain names into links, by a list of top-level domains. Here every word that looks like a domain name counts as a link,
 * without that list.
 */
const DOMAIN = /[\p{L}\p{N}][\p{L}\p{N}-]*(?:\.[\p{L}\p{N}-]+)*\.\p{L}{2,}(?:\/[^\s]*)?/gu;

/**
 * Returns the length of a post on X, or a greater length. After NFC, a letter of most alphabets counts as one, every other letter and each
 * emoji as two, and a link as 23. A word that looks like a domain counts as a link.
 */
export function xLength(text: string): number {
  const normal = text.normalize("NFC");
  const links = normal.match(LINKS)?.length ?? 0;
  const rest = normal.replaceAll(LINKS, "");
  const domains = rest.match(DOMAIN) ?? [];
  const extra = domains.reduce((sum, domain) => sum + Math.max(LINK - weightOf(domain), 0), 0);
  return links * LINK + weightOf(rest) + extra;
}

/** Returns the weight of a text without links on X. */
function weightOf(text: string): number {
  let weight = 0;
  for (const { segment } of graphemes.segment(text)) weight += xWeight(segment);
  return weight;
}

/** Returns the weight of one grapheme cluster on X. */
export function xWeight(cluster: string): number {
  if (EMOJI.test(cluster)) return 2;
  let weight = 0;
  for (const one of cluster.normalize("NFC")) {
    const point = one.codePointAt(0) ?? 0;
    weight += LIGHT.some(([from, to]) => point >= from && point <= to) ? 1 : 2;
  }
  return weight;
}
