interface Room {
  /** Maximum sum of the weights of the text's grapheme clusters. */
  characters: number;
  /** Returns the weight of a grapheme cluster. Default: 1. */
  weigh?: (cluster: string) => number;
  /** Maximum bytes of the text in UTF-8. By default the number of bytes is not limited. */
  bytes?: number;
}

const ELLIPSIS = "…";
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const encoder = new TextEncoder();

/**
 * Returns the text if it is within the limits. Otherwise the function returns the beginning of the text, cut at the end of a word if
 * possible, with an ellipsis.
 */
export function cut(text: string, { characters, weigh = () => 1, bytes = Number.POSITIVE_INFINITY }: Room): string {
  let kept = 0;
  let size = 0;
  let end = 0;
  for (const { segment, index } of graphemes.segment(text)) {
    size += encoder.encode(segment).byteLength;
    kept += weigh(segment);
    if (kept > characters || size > bytes) return shortened(text.slice(0, end));
    // The cut text must be shorter than the limits, because the ellipsis is added. The ellipsis is one character of three bytes, and X
    // counts it as two characters.
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
  // If the cut at the end of a word would remove half of the text or more, the text is cut within a word.
  const beginning = atWord.length > text.length / 2 ? atWord : text;
  return `${beginning.replace(/[\s,;:–—-]+$/, "")}${ELLIPSIS}`;
}
