/** A keyword as it is shown and searched for: without spaces that say nothing. */
export function spelled(keyword: string): string {
  return keyword.normalize("NFC").replaceAll(/\s+/g, " ").trim();
}

/** What makes two keywords one: upper and lower case and any run of spaces mean the same. */
export function keywordKey(keyword: string): string {
  return spelled(keyword).toLowerCase();
}

/** Each keyword once, in their order, under its first spelling. */
export function distinct(keywords: readonly string[]): string[] {
  return [...Map.groupBy(keywords, keywordKey).values()].map(([first = ""]) => spelled(first));
}
