/** The positions from `first` to `last`, both included. In a list, ranges are ordered, and confirmed positions separate them. */
export type Range = readonly [first: number, last: number];

/** Removes positions, given in ascending order, from ranges. A position inside a range splits the range. */
export function without(ranges: readonly Range[], places: readonly number[]): Range[] {
  const left: Range[] = [];
  let at = 0;
  for (const [first, last] of ranges) {
    let from = first;
    for (let place = places[at]; place !== undefined && place <= last; place = places[++at]) {
      if (place < from) continue;
      if (place > from) left.push([from, place - 1]);
      from = place + 1;
    }
    if (from <= last) left.push([from, last]);
  }
  return left;
}

/**
 * Reduces the number of ranges to a maximum by joining the nearest ranges. The positions between joined ranges then belong to the joined
 * range.
 */
export function atMost(most: number, ranges: readonly Range[]): Range[] {
  const tooMany = ranges.length - most;
  if (tooMany <= 0) return [...ranges];
  const distances = ranges.slice(1).map(([first], index) => ({ index: index + 1, distance: first - (ranges[index] as Range)[1] }));
  const nearest = distances.sort((a, b) => a.distance - b.distance).slice(0, tooMany);
  const joined = new Set(nearest.map(({ index }) => index));
  const left: Range[] = [];
  for (const [index, range] of ranges.entries()) {
    const before = joined.has(index) ? left.pop() : undefined;
    left.push(before ? [before[0], range[1]] : range);
  }
  return left;
}

export function size(ranges: readonly Range[]): number {
  return ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
}
