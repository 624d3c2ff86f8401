import { now, type Statement, sql } from "../contract/sql.ts";

/** The last failure of a message that will be redelivered. */
export interface FailedDelivery {
  /** The id of the message's tenant; empty for a message without a tenant. */
  readonly tenantId: string;
  /** The id of the dead letter that the message may become. */
  readonly letter: string;
  readonly code: string | null;
  readonly error: string;
  readonly step: string | null;
  readonly upstreamStatus: number | null;
}

/** The latest recorded failure of a message, with the times of its first and latest failures. */
export interface FailedBefore extends FailedDelivery {
  readonly firstAt: number;
  readonly lastAt: number;
}

/** Records failures, given as JSON. Only the latest failure of each message is kept. A successful delivery writes no row. */
export function noteFailures(rows: string): Statement {
  return sql`
    INSERT INTO millrace_failed_deliveries (tenant_id, letter, code, error, step, upstream_status, first_at, last_at)
    SELECT value->>'tenantId', value->>'letter', value->>'code', value->>'error', value->>'step', value->>'upstreamStatus', ${now}, ${now}
    FROM json_each(${rows}) WHERE true
    ON CONFLICT (tenant_id, letter) DO UPDATE SET code = excluded.code, error = excluded.error, step = excluded.step,
      upstream_status = excluded.upstream_status, failures = failures + 1, last_at = excluded.last_at`;
}

type Noted = Pick<FailedDelivery, "tenantId" | "letter">;

/** The recorded failures of the given messages. */
export function selectFailures(messages: readonly Noted[]): Statement {
  return sql`
    SELECT f.tenant_id AS tenantId, f.letter, f.code, f.error, f.step, f.upstream_status AS upstreamStatus, f.first_at AS firstAt,
      f.last_at AS lastAt
    FROM json_each(${JSON.stringify(messages)}) m
    CROSS JOIN millrace_failed_deliveries f ON f.tenant_id = m.value->>'tenantId' AND f.letter = m.value->>'letter'`;
}

/** Removes the records of messages that have become dead letters. */
export function forgetFailures(messages: readonly Noted[]): Statement {
  return sql`
    DELETE FROM millrace_failed_deliveries WHERE (tenant_id, letter) IN
      (SELECT value->>'tenantId', value->>'letter' FROM json_each(${JSON.stringify(messages)}))`;
}

/**
 * Removes old failure records. The statement scans the whole table, which contains only records of failures. The statement returns a row
 * for each removed row.
 */
export function removeOldFailures(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_failed_deliveries WHERE (tenant_id, letter) IN
      (SELECT tenant_id, letter FROM millrace_failed_deliveries WHERE last_at <= ${now} - ${keepMs} LIMIT ${limit})
    RETURNING 1 AS gone`;
}
