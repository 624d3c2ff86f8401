import { now, type Statement, sql } from "../contract/sql.ts";
import { isGood } from "./tokens.ts";

/** A browser's sign-in code: its hash, never the code. */
interface NewCode {
  /** The SHA-256 of the code, as hex. */
  readonly hash: string;
  readonly tenantId: string;
  /** The token that the code signs in with. */
  readonly tokenId: string;
  readonly reason: string;
}

/** Retention of an expired or used code: an error can explain for this long why the code is refused. */
const KEPT_MS = 3_600_000;

/** Stores a code for `forMs`, if its token exists and has not expired. The statement is idempotent. */
export function insertCode({ hash, tenantId, tokenId, reason }: NewCode, forMs: number): Statement {
  return sql`
    INSERT INTO millrace_sign_in_codes (hash, tenant_id, token_id, reason, expires_at)
    SELECT ${hash}, ${tenantId}, ${tokenId}, ${reason}, ${now} + ${forMs} WHERE ${isGood(tenantId, tokenId)}
    ON CONFLICT (hash) DO UPDATE SET hash = excluded.hash
    RETURNING expires_at`;
}

/** Removes a tenant's sign-in codes that expired an hour ago, when a new code is stored. */
export function removeOldCodes(tenantId: string): Statement {
  return sql`DELETE FROM millrace_sign_in_codes WHERE tenant_id = ${tenantId} AND expires_at <= ${now} - ${KEPT_MS}`;
}

export interface StoredCode {
  tenant_id: string;
  token_id: string;
  reason: string;
  used_by: string | null;
  /** Flag (0 or 1): the code has expired. */
  is_over: number;
}

export function selectCode(hash: string): Statement {
  return sql`SELECT tenant_id, token_id, reason, used_by, expires_at <= ${now} AS is_over FROM millrace_sign_in_codes WHERE hash = ${hash}`;
}

/** Claims a sign-in code for one token: only the first claim before the expiry succeeds. */
export function takeCode(hash: string, usedBy: string): Statement {
  return sql`UPDATE millrace_sign_in_codes SET used_by = ${usedBy} WHERE hash = ${hash} AND used_by IS NULL AND expires_at > ${now}`;
}

/** Selects the token that a code signs in with, after the token `usedBy` has claimed the code. */
export function tokenBehind(hash: string, usedBy: string): Statement {
  return sql`SELECT token_id FROM millrace_sign_in_codes WHERE hash = ${hash} AND used_by = ${usedBy}`;
}
