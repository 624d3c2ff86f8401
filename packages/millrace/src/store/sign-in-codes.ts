import { now, type Statement, sql } from "../contract/sql.ts";
import { isGood } from "./tokens.ts";

/** A code by which a browser signs in, as its row has it: a hash of it, never the code. */
interface NewCode {
  /** SHA-256, as hex. */
  readonly hash: string;
  readonly tenantId: string;
  /** The token that it stands for. */
  readonly tokenId: string;
  readonly reason: string;
}

/** How long a code that cannot be used any more is kept: until then people hear why it is refused. */
const KEPT_MS = 3_600_000;

/** Stores a code for `forMs`, if its token is there and has not expired. A repeat finds its own row. */
export function insertCode({ hash, tenantId, tokenId, reason }: NewCode, forMs: number): Statement {
  return sql`
    INSERT INTO millrace_sign_in_codes (hash, tenant_id, token_id, reason, expires_at)
    SELECT ${hash}, ${tenantId}, ${tokenId}, ${reason}, ${now} + ${forMs} WHERE ${isGood(tenantId, tokenId)}
    ON CONFLICT (hash) DO UPDATE SET hash = excluded.hash
    RETURNING expires_at`;
}

/** Removes a tenant's codes that were over an hour ago: each new one clears away the old. */
export function removeOldCodes(tenantId: string): Statement {
  return sql`DELETE FROM millrace_sign_in_codes WHERE tenant_id = ${tenantId} AND expires_at <= ${now} - ${KEPT_MS}`;
}

/** What is known of a code. */
export interface StoredCode {
  tenant_id: string;
  token_id: string;
  reason: string;
  used_by: string | null;
  /** 1 where its time is over. */
  is_over: number;
}

/** A code by its hash. */
export function selectCode(hash: string): Statement {
  return sql`SELECT tenant_id, token_id, reason, used_by, expires_at <= ${now} AS is_over FROM millrace_sign_in_codes WHERE hash = ${hash}`;
}

/** Takes a code for one token: only the first that asks in time has it. */
export function takeCode(hash: string, usedBy: string): Statement {
  return sql`UPDATE millrace_sign_in_codes SET used_by = ${usedBy} WHERE hash = ${hash} AND used_by IS NULL AND expires_at > ${now}`;
}

/** The token that a code stands for, where it was taken for this one. */
export function tokenBehind(hash: string, usedBy: string): Statement {
  return sql`SELECT token_id FROM millrace_sign_in_codes WHERE hash = ${hash} AND used_by = ${usedBy}`;
}
