import { now, type Statement, sql } from "../contract/sql.ts";

/**
 * Refuses its whole batch where another holder has written under a higher token of the lock: `token` becomes NULL, which its NOT NULL does
 * not let be.
 */
export function assertFence(tenantId: string, name: string, token: number): Statement {
  return sql`
    INSERT INTO millrace_fences (tenant_id, name, token, at) VALUES (${tenantId}, ${name}, ${token}, ${now})
    ON CONFLICT (tenant_id, name) DO UPDATE SET token = iif(excluded.token >= token, excluded.token, NULL), at = excluded.at`;
}

/** What the database says where a fence refuses. */
const REFUSED = "NOT NULL constraint failed: millrace_fences.token";

/** True for the error of a batch that a fence refused. */
export function isFenced(error: unknown): boolean {
  return error instanceof Error && error.message.includes(REFUSED);
}

/** Removes the fences of locks that wrote nothing for long: no holder lives that long. Reads a small table. Answers a row for each. */
export function removeFences(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_fences WHERE (tenant_id, name) IN (SELECT tenant_id, name FROM millrace_fences
      WHERE at <= ${now} - ${keepMs} LIMIT ${limit})
    RETURNING 1 AS gone`;
}
