import { among, type Statement, sql } from "../contract/sql.ts";

/** Counters that a recorder collected. */
export interface TallyRow {
  readonly id: string;
  /** The start of the collection, in milliseconds since 1970. */
  readonly at: number;
  /** JSON. */
  readonly body: string;
}

/** Stores collected counters. Idempotent. */
export function insertTally({ id, at, body }: TallyRow): Statement {
  return sql`INSERT INTO millrace_tallies (id, at, body) VALUES (${id}, ${at}, ${body}) ON CONFLICT DO NOTHING`;
}

/** Tallies that are not imported yet, the oldest first, so that shown counters never decrease. */
export function selectTallies(limit: number): Statement {
  return sql`SELECT id, at, body FROM millrace_tallies ORDER BY at, id LIMIT ${limit}`;
}

/** Removes imported tallies. */
export function removeTallies(ids: readonly string[]): Statement {
  return sql`DELETE FROM millrace_tallies WHERE id IN ${among(ids)}`;
}
