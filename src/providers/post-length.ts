const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** Mastodon and X count a link of any length as this many characters. */
const LINK = 23;
const LINKS = /https?:\/\/[^\s]+/g;

/** Maximum characters of a post on Mastodon, unless its server allows more. */
export const MASTODON_CHARACTERS = 500;

/** Returns the length of a post on Mastodon in grapheme clusters; a link counts as 23. */
export function mastodonLength(text: string): number {
  return Array.from(graphemes.segment(text.replaceAll(LINKS, "x".repeat(LINK)))).length;
}

/** The most characters of a post on X, by `xLength`. */
export const X_CHARACTERS = 280;

/** Code points of one character on X, by the configuration v3 of twitter-text. All other code points count as two. */
const LIGHT: readonly (readonly [number, number])[] = [
  [0, 4351],
  [8192, 8205],
  [8208, 8223],
  [8242, 8247],
];
const EMOJI = /^\p{RGI_Emoji}$/v;
/**
 * X links names of domains too, by a list of their endings. Here every word that looks like a domain counts as a link, without that list.
 */
const DOMAIN = /[\p{L}\p{N}][\p{L}\p{N}-]*(?:\.[\p{L}\p{N}-]+)*\.\p{L}{2,}(?:\/[^\s]*)?/gu;

/**
 * Returns the length of a post on X, or more: after NFC, letters of most alphabets count as one, others and each emoji as two, a link as
 * 23. A word that looks like a domain counts as a link.
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
