const words = new Intl.Segmenter(undefined, { granularity: "word" });

/** The words of a text, in any language. */
export function wordCount(text: string): number {
  return Array.from(words.segment(text)).filter(({ isWordLike }) => isWordLike).length;
}
