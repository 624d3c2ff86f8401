import { messageOf } from "../contract/errors.ts";
import { now, type Statement, sql } from "../contract/sql.ts";

/** The position of a stream. A stream consists of a sender's messages with sequence numbers. */
export interface Stream {
  /** The stream's id: 32 hex characters. */
  id: string;
  /** The latest accepted sequence number; 0 if no message was accepted. */
  last: number;
  /** The latest hundred sequence numbers that were skipped. */
  missing: readonly number[];
}

/**
 * The move of a stream from the sequence number that the writer read to a later sequence number. Each sequence number between the two that
 * has no message is skipped.
 */
export interface StreamMove {
  readonly id: string;
  readonly from: number;
  readonly to: number;
  readonly missing: readonly number[];
}

const KEPT_MISSING = 100;

/**
 * Moves streams to later sequence numbers. Each stream may have at most one move. The database refuses all moves if one of the streams has
 * moved after the writer read the stream's position (see `hasMoved`).
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

/** True for the error of a refused move, because the stream has moved after its position was read. */
export function hasMoved(error: unknown): boolean {
  return /NOT NULL constraint failed: millrace_sequences\.last/.test(messageOf(error));
}

/** Selects the positions of the streams with the given ids. A stream that has not started has no row. */
export function selectStreams(ids: readonly string[]): Statement {
  return sql`
    SELECT lower(hex(id)) AS id, last, missing FROM millrace_sequences
    WHERE id IN (SELECT unhex(value) FROM json_each(${JSON.stringify(ids)}))`;
}

/** Removes streams without a recent message, within a range of ids (hex). The statement returns a row for each removed row. */
export function removeStreams({ from, last }: { from: string; last: string }, keepMs: number): Statement {
  return sql`
    DELETE FROM millrace_sequences WHERE id > unhex(${from}) AND id <= unhex(${last}) AND moved_at <= ${now} - ${keepMs}
    RETURNING 1 AS gone`;
}
