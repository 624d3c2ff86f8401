import type { Acceptance } from "../accept/accept.ts";

/**
 * Maximum number of acceptances in one write. The limit exists because D1 runs statements in sequence, and because the isolate's 128 MB
 * must hold the acceptances' JSON several times.
 */
const MAX_ACCEPTANCES = 1000;
const MAX_CHARACTERS = 2_000_000;

/**
 * Splits a list into parts, so that the acceptances of each part fit into one write. A single item is never split, even if its acceptances
 * exceed the limit.
 */
export function slices<T>(items: readonly T[], accepts: (item: T) => readonly Acceptance[]): T[][] {
  const parts: T[][] = [];
  let characters = Number.POSITIVE_INFINITY;
  let acceptances = 0;
  for (const item of items) {
    const its = accepts(item);
    const size = its.reduce((sum, { row }) => sum + row.length, 0);
    if (characters + size > MAX_CHARACTERS || acceptances + its.length > MAX_ACCEPTANCES) {
      parts.push([]);
      [characters, acceptances] = [0, 0];
    }
    parts.at(-1)?.push(item);
    characters += size;
    acceptances += its.length;
  }
  return parts;
}
