import { now, type Statement, sql } from "../contract/sql.ts";

/**
 * Refuses its whole batch if another holder has written with a higher token of the lock: `token` is set to NULL, which its NOT NULL
 * constraint refuses.
 */
export function assertFence(tenantId: string, name: string, token: number): Statement {
  return sql`
    INSERT INTO millrace_fences (tenant_id, name, token, at) VALUES (${tenantId}, ${name}, ${token}, ${now})
    ON CONFLICT (tenant_id, name) DO UPDATE SET token = iif(excluded.token >= token, excluded.token, NULL), at = excluded.at`;
}

/** The database's error when a fence refuses. */
const REFUSED = "NOT NULL constraint failed: millrace_fences.token";

export function isFenced(error: unknown): boolean {
  return error instanceof Error && error.message.includes(REFUSED);
}

/**
 * Removes the fences of locks whose last write is older than the longest possible holder. The statement scans the whole table, which is
 * small. The statement returns a row for each removed row.
 */
export function removeFences(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_fences WHERE (tenant_id, name) IN (SELECT tenant_id, name FROM millrace_fences
      WHERE at <= ${now} - ${keepMs} LIMIT ${limit})
    RETURNING 1 AS gone`;
}
