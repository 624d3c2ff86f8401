import type { Acceptance } from "../accept/accept.ts";

/** What one write takes: D1 runs its statements one after another, and their JSON lies in the isolate's 128 MB several times over. */
const MAX_ACCEPTANCES = 1000;
const MAX_CHARACTERS = 2_000_000;

/** Cuts a list so that what each part has to accept fits one write. What one item alone leads to is not cut. */
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
