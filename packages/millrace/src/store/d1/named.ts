import type * as z from "zod";
import { rowOf } from "../../contract/row.ts";
import type { RowStatement, Statement } from "../../contract/sql.ts";
import { keysetPage, type Looked, type Page, type PageRequest, type Position } from "./paging.ts";
import { atomically, query, type Row } from "./retry.ts";

type One = Statement | RowStatement;

/** A statement of a batch, or a list of statements whose rows are returned as one list. */
export type Part = One | readonly One[];

/** Runs statements in order as one atomic batch. Returns by name the rows of each statement or list of statements. */
export async function namedBatch<Name extends string>(db: D1Database, parts: Readonly<Record<Name, Part>>): Promise<Record<Name, Row[]>> {
  const named = (Object.entries(parts) as [Name, Part][]).map(([name, part]): [Name, readonly One[]] => [
    name,
    "text" in part ? [part] : part,
  ]);
  const answers = await atomically(
    db,
    named.flatMap(([, statements]) => statements),
  );
  return Object.fromEntries(named.map(([name, { length }]) => [name, answers.splice(0, length).flat()])) as Record<Name, Row[]>;
}

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
