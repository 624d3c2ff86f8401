import { distance } from "fastest-levenshtein";

/** Measuring takes time with the length, and no name of ours is longer. */
const MAX_MEASURED_CHARACTERS = 100;

/**
 * The known name that was probably meant; undefined when none is near, or the name is longer than any: a wrong guess is worse than none.
 */
export function nearest(name: string, known: Iterable<string>): string | undefined {
  if (name.length > MAX_MEASURED_CHARACTERS) return undefined;
  const [first] = [...known].map((one) => ({ one, far: distance(one, name) })).sort((a, b) => a.far - b.far);
  return first && isNear(name, first.one, first.far) ? first.one : undefined;
}

/** Most of the longer name is right, or two of its letters have changed places. */
function isNear(name: string, known: string, far: number): boolean {
  const letters = (text: string) => [...text].sort().join("");
  const most = Math.min(Math.max(3, name.length / 3), 0.4 * Math.max(name.length, known.length));
  return far <= most || (far <= 2 && letters(name) === letters(known));
}
