/** Returns the form of a keyword for display and search, which has no redundant spaces. */
export function spelled(keyword: string): string {
  return keyword.normalize("NFC").replaceAll(/\s+/g, " ").trim();
}

/** Returns the string by which keywords are compared. Differences in case and in spaces do not change this string. */
export function keywordKey(keyword: string): string {
  return spelled(keyword).toLowerCase();
}

/** Removes repeated keywords. Each keyword remains once, at its first position and in its first spelling. */
export function distinct(keywords: readonly string[]): string[] {
  return [...Map.groupBy(keywords, keywordKey).values()].map(([first = ""]) => spelled(first));
}
