import { now, type Statement, sql } from "../contract/sql.ts";

/**
 * Refuses its whole batch if another holder of the lock has written with a higher token. In that case `token` is set to NULL, which the NOT
 * NULL constraint of the column refuses.
 */
export function assertFence(tenantId: string, name: string, token: number): Statement {
  return sql`
    INSERT INTO millrace_fences (tenant_id, name, token, at) VALUES (${tenantId}, ${name}, ${token}, ${now})
    ON CONFLICT (tenant_id, name) DO UPDATE SET token = iif(excluded.token >= token, excluded.token, NULL), at = excluded.at`;
}

/** The database's error when a fence refuses a batch. */
const REFUSED = "NOT NULL constraint failed: millrace_fences.token";

export function isFenced(error: unknown): boolean {
  return error instanceof Error && error.message.includes(REFUSED);
}

/**
 * Removes the fences of locks whose latest write is older than the maximum time for which a lock can be held. The statement scans the whole
 * table, which is small. The statement returns a row for each removed row.
 */
export function removeFences(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_fences WHERE (tenant_id, name) IN (SELECT tenant_id, name FROM millrace_fences
      WHERE at <= ${now} - ${keepMs} LIMIT ${limit})
    RETURNING 1 AS gone`;
}
