import { distance } from "fastest-levenshtein";

/** Measuring takes time with the length, and no name of ours is longer. */
const MAX_MEASURED_CHARACTERS = 100;

/** The known name that was probably meant; undefined when none is near, or the name is longer than any. */
export function nearest(name: string, known: Iterable<string>): string | undefined {
  if (name.length > MAX_MEASURED_CHARACTERS) return undefined;
  const [first] = [...known].map((one) => ({ one, far: distance(one, name) })).sort((a, b) => a.far - b.far);
  return first && first.far <= Math.max(3, name.length / 3) ? first.one : undefined;
}
