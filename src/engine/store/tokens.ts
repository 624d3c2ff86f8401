import { fragment, now, type Statement, sql } from "../contract/sql.ts";

/** A token as its row has it: a hash of its secret, never the secret. */
export interface NewToken {
  readonly id: string;
  /** SHA-256, as hex. */
  readonly hash: string;
  readonly tenantId: string;
  /** Who holds it. */
  readonly actor: string;
  readonly scopes: readonly string[];
  /** Milliseconds since the epoch; null for never. */
  readonly expiresAt: number | null;
}

const SHOWN = fragment(`id, actor, scopes, created_at, expires_at`);

/**
 * Keeps a token, if its tenant has fewer than so many. It may be repeated over a blip of the database: finding its own row there is
 * success. Answers the row.
 */
export function insertToken({ id, hash, tenantId, actor, scopes, expiresAt }: NewToken, most: number): Statement {
  return sql`
    INSERT INTO tokens (id, hash, tenant_id, actor, scopes, created_at, expires_at)
    SELECT ${id}, ${hash}, ${tenantId}, ${actor}, ${scopes.join(" ")}, ${now}, ${expiresAt}
    WHERE (SELECT count(*) FROM tokens WHERE tenant_id = ${tenantId}) < ${most} OR EXISTS (SELECT 1 FROM tokens WHERE id = ${id})
    ON CONFLICT (id) DO UPDATE SET id = excluded.id WHERE tokens.hash = excluded.hash
    RETURNING ${SHOWN}`;
}

/**
 * Keeps a token, however many its tenant has: whoever reaches the database itself may. It ends so many milliseconds later, or never. One
 * that is there stays as it is.
 */
export function grantToken({ id, hash, tenantId, actor, scopes }: Omit<NewToken, "expiresAt">, forMs: number | null): Statement {
  return sql`
    INSERT INTO tokens (id, hash, tenant_id, actor, scopes, created_at, expires_at)
    VALUES (${id}, ${hash}, ${tenantId}, ${actor}, ${scopes.join(" ")}, ${now}, ${now} + ${forMs})
    ON CONFLICT (id) DO NOTHING`;
}

/** What people may see of the tokens that this condition names. */
export function selectTokens(where: Statement): Statement {
  return sql`SELECT ${SHOWN} FROM tokens WHERE ${where}`;
}

/** A tenant's tokens, newest first. */
export function selectTokensOf(tenantId: string, limit: number): Statement {
  return selectTokens(sql`tenant_id = ${tenantId} ORDER BY created_at DESC, id DESC LIMIT ${limit}`);
}

/** Whose a token is. */
export function selectOwner(id: string): Statement {
  return sql`SELECT tenant_id, actor FROM tokens WHERE id = ${id}`;
}

/** Ends a token of a tenant. */
export function removeToken(tenantId: string, id: string): Statement {
  return sql`DELETE FROM tokens WHERE tenant_id = ${tenantId} AND id = ${id}`;
}

/** Removes tokens that expired long ago: until then their names explain the audit. Reads a small table. Answers a row for each. */
export function removeExpired(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM tokens WHERE id IN (SELECT id FROM tokens WHERE expires_at <= ${now} - ${keepMs} LIMIT ${limit}) RETURNING 1 AS gone`;
}
