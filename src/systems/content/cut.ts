/** How much of a text may stay. */
interface Room {
  /** As people count them: grapheme clusters. */
  characters: number;
  /** In UTF-8. Default: no limit. */
  bytes?: number;
}

const ELLIPSIS = "…";
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const encoder = new TextEncoder();

/** The text, or as much of its beginning as there is room for, up to the end of a word where one is near, with an ellipsis behind it. */
export function cut(text: string, { characters, bytes = Number.POSITIVE_INFINITY }: Room): string {
  let kept = 0;
  let size = 0;
  let end = 0;
  for (const { segment, index } of graphemes.segment(text)) {
    size += encoder.encode(segment).byteLength;
    kept += 1;
    if (kept > characters || size > bytes) return shortened(text.slice(0, end));
    // Where a cut would leave room for the ellipsis, which is one character of three bytes.
    if (kept < characters && size + 3 <= bytes) end = index + segment.length;
  }
  return text;
}

/** How many characters people count in a text. */
export function characterCount(text: string): number {
  return Array.from(graphemes.segment(text)).length;
}

function shortened(text: string): string {
  const atWord = text.replace(/\s+\S*$/, "");
  // A text without spaces, or with one long word, is cut inside it.
  const beginning = atWord.length > text.length / 2 ? atWord : text;
  return `${beginning.replace(/[\s,;:–—-]+$/, "")}${ELLIPSIS}`;
}
