import { among, type Statement, sql } from "../contract/sql.ts";

/** Counts that a recorder gathered. */
export interface TallyRow {
  readonly id: string;
  /** When the first of them was gathered, in milliseconds since the epoch. */
  readonly at: number;
  /** JSON. */
  readonly body: string;
}

/** Keeps gathered counts. A repeat of the same changes nothing. */
export function insertTally({ id, at, body }: TallyRow): Statement {
  return sql`INSERT INTO millrace_tallies (id, at, body) VALUES (${id}, ${at}, ${body}) ON CONFLICT DO NOTHING`;
}

/** Tallies that nobody has taken over, the oldest first: what is shown of counts never goes back while more come in. */
export function selectTallies(limit: number): Statement {
  return sql`SELECT id, at, body FROM millrace_tallies ORDER BY at, id LIMIT ${limit}`;
}

/** Removes tallies that were taken over. */
export function removeTallies(ids: readonly string[]): Statement {
  return sql`DELETE FROM millrace_tallies WHERE id IN ${among(ids)}`;
}
