import type { Checked, Divergence } from "./check.ts";

/**
 * A slice of rows that were read in order, one more than it looks at: that one is where the next begins. `place` names a row's own, which
 * is the first of a slice that begins there.
 */
export function slicedBy<Row>(
  rows: readonly Row[],
  limit: number,
  place: (row: Row) => string,
  found: (row: Row) => readonly Omit<Divergence, "place">[],
): Checked {
  const next = rows[limit];
  return {
    found: rows.slice(0, limit).flatMap((row) => found(row).map((one) => ({ ...one, place: place(row) }))),
    next: next === undefined ? null : place(next),
  };
}

/** A place of several columns. */
export const placeOf = (...columns: readonly (string | number)[]): string => JSON.stringify(columns);

/** Its columns again; the given ones at the beginning. */
export function columnsOf<Columns extends readonly (string | number)[]>(place: string | null, beginning: Columns): Columns {
  return place === null ? beginning : (JSON.parse(place) as Columns);
}

/** An age in words. */
export function ageOf(ms: number): string {
  const minutes = Math.max(0, Math.floor(ms / 60_000));
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
}
