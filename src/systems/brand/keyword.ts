/** Returns a keyword for display and search: without redundant spaces. */
export function spelled(keyword: string): string {
  return keyword.normalize("NFC").replaceAll(/\s+/g, " ").trim();
}

/** Returns the identity of a keyword, which ignores case and runs of spaces. */
export function keywordKey(keyword: string): string {
  return spelled(keyword).toLowerCase();
}

/** Removes repeated keywords: each remains once, in order, in its first spelling. */
export function distinct(keywords: readonly string[]): string[] {
  return [...Map.groupBy(keywords, keywordKey).values()].map(([first = ""]) => spelled(first));
}
