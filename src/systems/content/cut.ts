interface Room {
  /** Maximum number of grapheme clusters, or maximum sum of their weights. */
  characters: number;
  /** Returns the weight of a grapheme cluster. Default: 1. */
  weigh?: (cluster: string) => number;
  /** Maximum bytes of the text in UTF-8. Default: the bytes are not limited. */
  bytes?: number;
}

const ELLIPSIS = "…";
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const encoder = new TextEncoder();

/** Returns the text, or its beginning within the limits, cut at the end of a word if one is near, with an ellipsis. */
export function cut(text: string, { characters, weigh = () => 1, bytes = Number.POSITIVE_INFINITY }: Room): string {
  let kept = 0;
  let size = 0;
  let end = 0;
  for (const { segment, index } of graphemes.segment(text)) {
    size += encoder.encode(segment).byteLength;
    kept += weigh(segment);
    if (kept > characters || size > bytes) return shortened(text.slice(0, end));
    // The cut text leaves room for the ellipsis: one character of three bytes, which X counts as two.
    if (kept + weigh(ELLIPSIS) <= characters && size + 3 <= bytes) end = index + segment.length;
  }
  return text;
}

/** Counts the grapheme clusters of a text. */
export function characterCount(text: string): number {
  return Array.from(graphemes.segment(text)).length;
}

function shortened(text: string): string {
  const atWord = text.replace(/\s+\S*$/, "");
  // A text without spaces, or with one long word, is cut within the word.
  const beginning = atWord.length > text.length / 2 ? atWord : text;
  return `${beginning.replace(/[\s,;:–—-]+$/, "")}${ELLIPSIS}`;
}
