import { among, fragment, now, type Statement, sql } from "../contract/sql.ts";

/** The period that one row of counts covers. */
export type Span = "minute" | "hour" | "ever";

export const SPAN_MS = { minute: 60_000, hour: 3_600_000 } as const;

/** The row with all counts of one period. */
export interface CountsRow {
  readonly span: Span;
  /** The start of the period in milliseconds since 1970; 0 for `ever`. */
  readonly at: number;
  /** JSON. */
  readonly body: string;
  /** The count of imports of tallies so far, which is used only for the period `ever`. */
  readonly version: number;
}

const COLUMNS = fragment("span, at, body, version");

/** Selects the counts of all time. */
export function selectEver(): Statement {
  return sql`SELECT ${COLUMNS} FROM millrace_counts WHERE span = 'ever' AND at = 0`;
}

/** Selects the rows of counts whose periods start at the given times. */
export function selectCountsAt(span: Span, times: readonly number[]): Statement {
  return sql`SELECT ${COLUMNS} FROM millrace_counts WHERE span = ${span} AND at IN ${among(times)}`;
}

/** Selects the rows of counts from one time until before another, oldest first. */
export function selectCountsBetween(span: Span, from: number, to: number): Statement {
  return sql`SELECT ${COLUMNS} FROM millrace_counts WHERE span = ${span} AND at >= ${from} AND at < ${to} ORDER BY at`;
}

/** Replaces the counts of a minute or an hour. */
export function writeCounts(span: Span, at: number, body: string): Statement {
  return sql`
    INSERT INTO millrace_counts (span, at, body) VALUES (${span}, ${at}, ${body})
    ON CONFLICT (span, at) DO UPDATE SET body = excluded.body`;
}

/**
 * Replaces the counts of all time. The whole batch is refused if other tallies were imported after `version` was read. In that case the
 * statement sets the version to NULL, which the NOT NULL constraint of the column refuses.
 */
export function writeEver(body: string, version: number): Statement {
  return sql`UPDATE millrace_counts SET body = ${body}, version = iif(version = ${version}, version + 1, NULL)
    WHERE span = 'ever' AND at = 0`;
}

/** Removes old rows of counts. The statement returns a row for each removed row. */
export function removeCounts(span: "minute" | "hour", keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_counts WHERE (span, at) IN
      (SELECT span, at FROM millrace_counts WHERE span = ${span} AND at < ${now} - ${keepMs} ORDER BY at LIMIT ${limit})
    RETURNING 1 AS gone`;
}
