import { among, type Statement, sql } from "../contract/sql.ts";

/** A row of counters that a recorder collected. */
export interface TallyRow {
  readonly id: string;
  /** The start of the counting period, in milliseconds since 1970. */
  readonly at: number;
  /** The counters as JSON. */
  readonly body: string;
}

/** Stores a row of counters that a recorder collected. The statement is idempotent. */
export function insertTally({ id, at, body }: TallyRow): Statement {
  return sql`INSERT INTO millrace_tallies (id, at, body) VALUES (${id}, ${at}, ${body}) ON CONFLICT DO NOTHING`;
}

/** Selects counters that are not imported yet. The oldest counters come first, so that displayed values never decrease. */
export function selectTallies(limit: number): Statement {
  return sql`SELECT id, at, body FROM millrace_tallies ORDER BY at, id LIMIT ${limit}`;
}

/** Removes counters that have been imported. */
export function removeTallies(ids: readonly string[]): Statement {
  return sql`DELETE FROM millrace_tallies WHERE id IN ${among(ids)}`;
}
