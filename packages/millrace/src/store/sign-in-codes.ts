import { now, type Statement, sql } from "../contract/sql.ts";
import { isGood } from "./tokens.ts";

/** A sign-in code for a browser. The database stores the hash of the code, never the code. */
interface NewCode {
  /** The SHA-256 of the code, as hex. */
  readonly hash: string;
  readonly tenantId: string;
  /** The id of the token whose rights a browser gets with the code. */
  readonly tokenId: string;
  readonly reason: string;
}

/** Retention of an expired or used code, in milliseconds. Until a code is removed, an error can explain why the code is refused. */
const KEPT_MS = 3_600_000;

/** Stores a code that is valid for `forMs`, if its token exists and has not expired. The statement is idempotent. */
export function insertCode({ hash, tenantId, tokenId, reason }: NewCode, forMs: number): Statement {
  return sql`
    INSERT INTO millrace_sign_in_codes (hash, tenant_id, token_id, reason, expires_at)
    SELECT ${hash}, ${tenantId}, ${tokenId}, ${reason}, ${now} + ${forMs} WHERE ${isGood(tenantId, tokenId)}
    ON CONFLICT (hash) DO UPDATE SET hash = excluded.hash
    RETURNING expires_at`;
}

/** Removes a tenant's sign-in codes that expired more than an hour ago. The statement runs when a new code is stored. */
export function removeOldCodes(tenantId: string): Statement {
  return sql`DELETE FROM millrace_sign_in_codes WHERE tenant_id = ${tenantId} AND expires_at <= ${now} - ${KEPT_MS}`;
}

export interface StoredCode {
  tenant_id: string;
  token_id: string;
  reason: string;
  used_by: string | null;
  /** Flag (0 or 1): 1 if the code has expired. */
  is_over: number;
}

export function selectCode(hash: string): Statement {
  return sql`SELECT tenant_id, token_id, reason, used_by, expires_at <= ${now} AS is_over FROM millrace_sign_in_codes WHERE hash = ${hash}`;
}

/** Claims a sign-in code for a token. Only the first claim before the code's expiry succeeds. */
export function takeCode(hash: string, usedBy: string): Statement {
  return sql`UPDATE millrace_sign_in_codes SET used_by = ${usedBy} WHERE hash = ${hash} AND used_by IS NULL AND expires_at > ${now}`;
}

/** Selects the token whose rights a code gives, if the browser's token `usedBy` has claimed the code. */
export function tokenBehind(hash: string, usedBy: string): Statement {
  return sql`SELECT token_id FROM millrace_sign_in_codes WHERE hash = ${hash} AND used_by = ${usedBy}`;
}
