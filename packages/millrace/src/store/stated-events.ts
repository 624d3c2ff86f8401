import { now, type Statement, sql } from "../contract/sql.ts";

/** What is known of the key of an event from outside. */
export interface KnownEvent {
  id: string;
  fingerprint: string;
  said: string;
  /** Null when the event began a job of its own, which has the event's name. */
  correlation_id: string | null;
}

/** Takes keys of events: those that are known stay as they are. Answers the ids that are new. Behind their messages. */
export function insertStatedEvents(rows: string): Statement {
  return sql`
    INSERT INTO millrace_stated_events (id, fingerprint, said, correlation_id, stated_at)
    SELECT unhex(value->>'id'), unhex(value->>'fingerprint'), unhex(value->>'said'), value->>'correlationId', ${now}
    FROM json_each(${rows}) WHERE true
    ON CONFLICT (id) DO NOTHING
    RETURNING lower(hex(id)) AS id`;
}

/** What is known of these keys. */
export function selectStated(ids: readonly string[]): Statement {
  return sql`
    SELECT lower(hex(id)) AS id, lower(hex(fingerprint)) AS fingerprint, lower(hex(said)) AS said, correlation_id
    FROM millrace_stated_events WHERE id IN (SELECT unhex(value) FROM json_each(${JSON.stringify(ids)}))`;
}

/** Which of these keys are taken: each with the time since when. */
export function selectStatedAt(ids: readonly string[]): Statement {
  return sql`
    SELECT lower(hex(id)) AS id, lower(hex(fingerprint)) AS fingerprint, correlation_id, stated_at
    FROM millrace_stated_events WHERE id IN (SELECT unhex(value) FROM json_each(${JSON.stringify(ids)}))`;
}

/** Removes a slice of old keys, from behind one id to another, both as hex. Answers a row for each. */
export function removeStatedEvents({ from, last }: { from: string; last: string }, keepMs: number): Statement {
  return sql`
    DELETE FROM millrace_stated_events WHERE id > unhex(${from}) AND id <= unhex(${last}) AND stated_at <= ${now} - ${keepMs}
    RETURNING 1 AS gone`;
}
