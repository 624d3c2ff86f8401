import type { RowStatement, Statement } from "../../contract/sql.ts";
import { atomically, type Row } from "./retry.ts";

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
