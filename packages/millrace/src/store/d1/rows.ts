import type * as z from "zod";
import { rowOf } from "../../contract/row.ts";
import type { Statement } from "../../contract/sql.ts";
import { keysetPage, type Page, type PageRequest, type Position } from "./paging.ts";
import { query, type Row } from "./retry.ts";

/** Runs a select, and returns its rows as the API has them: the columns have the names of the schema's fields. */
export async function selectRows<Of extends z.ZodObject>(db: D1Database, of: Of, statement: Statement): Promise<z.output<Of>[]> {
  return (await query(db, statement)).map((row) => rowOf(of, row));
}

/** One page of a select, newest first. `by`: the columns of time and id that order it. */
export async function rowPage<Of extends z.ZodObject>(
  db: D1Database,
  of: Of,
  request: PageRequest,
  by: { readonly at: string; readonly id: string },
  select: (before: Position, limit: number) => Statement,
): Promise<Page<z.output<Of>>> {
  const position = (row: Row) => ({ at: Number(row[by.at]), id: String(row[by.id]) });
  const { items, next } = await keysetPage(request, position, (before, limit) => query(db, select(before, limit)));
  return { items: items.map((row) => rowOf(of, row)), next };
}
