import type { Checked, Divergence } from "./check.ts";

/**
 * A slice of ordered rows. `rows` may contain one row more than `limit`. The next slice starts with this row. `place` returns the start of
 * a slice whose first row is the given row.
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

export const placeOf = (...columns: readonly (string | number)[]): string => JSON.stringify(columns);

/** Parses a scan's position into the values of its columns. At the start of a scan, the result is `beginning`. */
export function columnsOf<Columns extends readonly (string | number)[]>(place: string | null, beginning: Columns): Columns {
  return place === null ? beginning : (JSON.parse(place) as Columns);
}

export function ageOf(ms: number): string {
  const minutes = Math.max(0, Math.floor(ms / 60_000));
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
}
