import type * as z from "zod";
import { rowOf } from "../../contract/row.ts";
import type { Statement } from "../../contract/sql.ts";
import { keysetPage, type Looked, type Page, type PageRequest, type Position } from "./paging.ts";
import { query, type Row } from "./retry.ts";

/** Runs a select, and returns its rows in the form of the API. The columns must have the names of the schema's fields. */
export async function selectRows<Of extends z.ZodObject>(db: D1Database, of: Of, statement: Statement): Promise<z.output<Of>[]> {
  return (await query(db, statement)).map((row) => rowOf(of, row));
}

/** One page of a select, newest first. `position` returns the time and the id of a row, by which the page is ordered. */
export async function rowPage<Of extends z.ZodObject>(
  of: Of,
  request: PageRequest,
  position: (row: Row) => Position,
  load: (before: Position, limit: number) => Promise<Row[] | Looked<Row>>,
): Promise<Page<z.output<Of>>> {
  const { items, next } = await keysetPage(request, position, load);
  return { items: items.map((row) => rowOf(of, row)), next };
}

/** Returns the position of a row from two columns of the row: a time and an id. */
export const positionBy = (time: string, id: string) => (row: Row) => ({ at: Number(row[time]), id: String(row[id]) });
