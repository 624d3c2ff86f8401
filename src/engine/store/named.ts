import type { RowStatement, Statement } from "../contract/sql.ts";
import { batch, type Row } from "./retry.ts";

/** Runs lists of statements as one atomic batch, in their order, and answers each list's rows under its name. */
export async function namedBatch<Name extends string>(
  db: D1Database,
  lists: Readonly<Record<Name, readonly (Statement | RowStatement)[]>>,
): Promise<Record<Name, Row[]>> {
  const named = Object.entries(lists) as [Name, readonly (Statement | RowStatement)[]][];
  const answers = await batch(
    db,
    named.flatMap(([, statements]) => statements),
  );
  return Object.fromEntries(named.map(([name, { length }]) => [name, answers.splice(0, length).flat()])) as Record<Name, Row[]>;
}
