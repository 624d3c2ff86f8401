/**
 * Anything as JSON text. Numbers that JSON has no word for (NaN, Infinity, a BigInt) are written as texts, so that two that differ are not both
 * `null`. Throws for what has no text: a cycle, or nesting without end.
 */
export function textOf(value: unknown): string {
  try {
    return JSON.stringify(value, (_, one) => (isBeyondJson(one) ? String(one) : one)) ?? "null";
  } catch {
    // Without a function to ask, thousands of levels more have a text.
    return JSON.stringify(value) ?? "null";
  }
}

/** True for a number that JSON has no word for. */
export function isBeyondJson(value: unknown): boolean {
  return typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value));
}

/** A text of at most so many characters, of whole ones: what is longer ends with "…". */
export function shortened(text: string, characters: number): string {
  const whole = text.toWellFormed();
  return whole.length <= characters ? whole : `${whole.slice(0, characters - 1).toWellFormed()}…`;
}
