import { messageOf } from "../contract/errors.ts";
import { now, type Statement, sql } from "../contract/sql.ts";

/** How far a stream of numbered messages has got. */
export interface Stream {
  /** Names the stream: 32 hex characters. */
  id: string;
  /** The place that was taken last; 0 before the first. */
  last: number;
  /** Places that were given up, the newest hundred. */
  missing: readonly number[];
}

/** A stream moves on, from the place that its writer saw to another; what lies between and was not taken is given up. */
export interface StreamMove {
  readonly id: string;
  readonly from: number;
  readonly to: number;
  readonly missing: readonly number[];
}

const KEPT_MISSING = 100;

/**
 * Moves streams on, one move for each. Refused as a whole where one of them is not where its writer saw it, or has not begun, and is moved
 * from further on: see `hasMoved`.
 */
export function advanceStreams(moves: readonly StreamMove[]): Statement {
  return sql`
    INSERT INTO millrace_sequences (id, last, before, missing, moved_at)
    SELECT unhex(value->>'id'), iif(value->>'from' = 0 OR EXISTS (SELECT 1 FROM millrace_sequences
      WHERE id = unhex(value->>'id')), value->>'to', NULL),
      value->>'from', value->>'missing', ${now}
    FROM json_each(${JSON.stringify(moves)}) WHERE true
    ON CONFLICT (id) DO UPDATE SET
      last = CASE WHEN millrace_sequences.last = excluded.before THEN excluded.last END, before = excluded.before,
        moved_at = excluded.moved_at,
      missing = CASE WHEN excluded.missing = '[]' THEN millrace_sequences.missing ELSE (
        SELECT json_group_array(value) FROM (
          SELECT value FROM json_each(millrace_sequences.missing) UNION SELECT value FROM json_each(excluded.missing)
          ORDER BY value DESC LIMIT ${KEPT_MISSING})) END`;
}

/** True for the error of a move whose stream has moved meanwhile. */
export function hasMoved(error: unknown): boolean {
  return /NOT NULL constraint failed: millrace_sequences\.last/.test(messageOf(error));
}

/** Where these streams are. One without a row has not begun. */
export function selectStreams(ids: readonly string[]): Statement {
  return sql`
    SELECT lower(hex(id)) AS id, last, missing FROM millrace_sequences
    WHERE id IN (SELECT unhex(value) FROM json_each(${JSON.stringify(ids)}))`;
}

/** Removes a slice of streams that have not moved for long, from behind one id to another, both as hex. Answers a row for each. */
export function removeStreams({ from, last }: { from: string; last: string }, keepMs: number): Statement {
  return sql`
    DELETE FROM millrace_sequences WHERE id > unhex(${from}) AND id <= unhex(${last}) AND moved_at <= ${now} - ${keepMs}
    RETURNING 1 AS gone`;
}
