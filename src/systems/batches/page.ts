import { query, type Statement, sql } from "millrace";
import { PAGE_BYTES, PAGE_ROWS } from "./limits.ts";

/** A page of stored rows, and the cursor of the next page. The cursor is null after the last page. */
export interface RowPage<Row> {
  rows: Row[];
  next: string | null;
}

/**
 * Selects the first rows of a query in the given order. The column `bytes` of the query contains the size of each row. The database limits
 * the page by size, so that the Worker does not load further rows. The query returns at least one row of any size, unless there are no
 * rows.
 */
export async function pageOf<Row extends object>(
  db: D1Database,
  rows: Statement,
  order: ReturnType<typeof sql.fragment>,
  cursorOf: (row: Row) => string,
): Promise<RowPage<Row>> {
  const found = await query<Row & { more: number | null }>(
    db,
    sql`
      SELECT * FROM (
        SELECT *, lead(1) OVER (ORDER BY ${order}) AS more,
          sum(bytes) OVER (ORDER BY ${order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM (${rows} ORDER BY ${order} LIMIT ${PAGE_ROWS + 1}))
      WHERE coalesce(before, 0) < ${PAGE_BYTES} ORDER BY ${order} LIMIT ${PAGE_ROWS}`,
  );
  const last = found.at(-1);
  return { rows: found, next: last?.more ? cursorOf(last) : null };
}
