import { now, type Statement, sql } from "../contract/sql.ts";

/** The record of an outside event's key. */
export interface KnownEvent {
  id: string;
  fingerprint: string;
  said: string;
  /** The correlation id. Null if the event started a job, because the event's id is then the correlation id. */
  correlation_id: string | null;
}

/**
 * Stores keys of outside events. A key that is already stored remains unchanged. The statement returns the ids of the new keys. The
 * statement must follow the insert of the events' messages.
 */
export function insertStatedEvents(rows: string): Statement {
  return sql`
    INSERT INTO millrace_stated_events (id, fingerprint, said, correlation_id, stated_at)
    SELECT unhex(value->>'id'), unhex(value->>'fingerprint'), unhex(value->>'said'), value->>'correlationId', ${now}
    FROM json_each(${rows}) WHERE true
    ON CONFLICT (id) DO NOTHING
    RETURNING lower(hex(id)) AS id`;
}

/** Selects the records of the given event keys. */
export function selectStated(ids: readonly string[]): Statement {
  return sql`
    SELECT lower(hex(id)) AS id, lower(hex(fingerprint)) AS fingerprint, lower(hex(said)) AS said, correlation_id
    FROM millrace_stated_events WHERE id IN (SELECT unhex(value) FROM json_each(${JSON.stringify(ids)}))`;
}

/** Selects the records of the given event keys, each with its time of acceptance. */
export function selectStatedAt(ids: readonly string[]): Statement {
  return sql`
    SELECT lower(hex(id)) AS id, lower(hex(fingerprint)) AS fingerprint, correlation_id, stated_at
    FROM millrace_stated_events WHERE id IN (SELECT unhex(value) FROM json_each(${JSON.stringify(ids)}))`;
}

/** Removes old event keys, within a range of ids (hex). The statement returns a row for each removed row. */
export function removeStatedEvents({ from, last }: { from: string; last: string }, keepMs: number): Statement {
  return sql`
    DELETE FROM millrace_stated_events WHERE id > unhex(${from}) AND id <= unhex(${last}) AND stated_at <= ${now} - ${keepMs}
    RETURNING 1 AS gone`;
}
