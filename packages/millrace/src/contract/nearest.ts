import { distance } from "fastest-levenshtein";

/**
 * Maximum characters of a compared name. Comparing longer names takes too long, and no name in a deployment is longer than this maximum.
 */
const MAX_MEASURED_CHARACTERS = 100;

/** The most similar known name; undefined when no name is similar, because a wrong suggestion is worse than no suggestion. */
export function nearest(name: string, known: Iterable<string>): string | undefined {
  if (name.length > MAX_MEASURED_CHARACTERS) return undefined;
  const [first] = [...known].map((one) => ({ one, far: distance(one, name) })).sort((a, b) => a.far - b.far);
  return first && isNear(name, first.one, first.far) ? first.one : undefined;
}

/** True if two names are similar: more than half of the longer name matches, or two letters of the name are swapped. */
function isNear(name: string, known: string, far: number): boolean {
  const letters = (text: string) => [...text].sort().join("");
  const most = Math.min(Math.max(3, name.length / 3), 0.4 * Math.max(name.length, known.length));
  return far <= most || (far <= 2 && letters(name) === letters(known));
}
