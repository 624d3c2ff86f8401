import { fragment, now, type Statement, sql } from "../contract/sql.ts";

/** A new API token: the database stores the hash of its secret, never the secret. */
export interface NewToken {
  readonly id: string;
  /** The SHA-256 of the token's secret, as hex. */
  readonly hash: string;
  readonly tenantId: string;
  /** The name of the token's holder. */
  readonly actor: string;
  readonly scopes: readonly string[];
  /** Expiry in milliseconds since 1970; null if the token never expires. */
  readonly expiresAt: number | null;
  /** The id of the token that minted this token; undefined if no token minted it. */
  readonly mintedBy?: string | undefined;
}

/** The columns of a token that the API returns: see `TokenRow`. */
const SHOWN = fragment(
  `id, actor, '["' || replace(scopes, ' ', '","') || '"]' AS scopes, created_at, expires_at, used_at AS last_used_at, signed_in`,
);
/** Precision of the recorded time of a token's latest use. At most one use of a token is written within one interval of this length. */
export const USED_WITHIN_MS = 3_600_000;

/**
 * Stores a token, if its tenant has fewer than `most` tokens, and the minting token exists and has not expired. Tokens of browsers do not
 * count. The statement is idempotent after a database error, and returns the token's row.
 */
export function insertToken({ id, hash, tenantId, actor, scopes, expiresAt, mintedBy }: NewToken, most: number): Statement {
  return sql`
    INSERT INTO millrace_tokens (id, hash, tenant_id, actor, scopes, created_at, expires_at, minted_by)
    SELECT ${id}, ${hash}, ${tenantId}, ${actor}, ${scopes.join(" ")}, ${now}, ${expiresAt},
      (SELECT trim(coalesce(minted_by, '') || ' ' || id) FROM millrace_tokens WHERE id = ${mintedBy ?? null} AND tenant_id = ${tenantId})
    WHERE (${mintedBy === undefined ? sql`true` : isGood(tenantId, mintedBy)}
        AND (SELECT count(*) FROM millrace_tokens WHERE tenant_id = ${tenantId} AND signed_in = 0) < ${most})
      OR EXISTS (SELECT 1 FROM millrace_tokens WHERE id = ${id})
    ON CONFLICT (id) DO UPDATE SET id = excluded.id WHERE millrace_tokens.hash = excluded.hash
    RETURNING ${SHOWN}`;
}

/**
 * Stores a browser's token with the rights of an original token. The browser's token expires with the original token, and at the latest
 * after `forMs`. `standsFor` selects the id of the original token, or no row. The statement is idempotent. The statement returns the
 * token's row.
 */
export function insertHeir(
  { id, hash }: Pick<NewToken, "id" | "hash">,
  { standsFor, forMs }: { standsFor: Statement; forMs: number },
): Statement {
  return sql`
    INSERT INTO millrace_tokens (id, hash, tenant_id, actor, scopes, created_at, expires_at, minted_by, signed_in)
    SELECT ${id}, ${hash}, t.tenant_id, t.actor, t.scopes, ${now}, min(coalesce(t.expires_at, ${now} + ${forMs}), ${now} + ${forMs}),
      trim(coalesce(t.minted_by, '') || ' ' || t.id), 1
    FROM millrace_tokens t WHERE t.id = (${standsFor}) AND (t.expires_at IS NULL OR t.expires_at > ${now})
    ON CONFLICT (id) DO UPDATE SET id = excluded.id WHERE millrace_tokens.hash = excluded.hash
    RETURNING ${SHOWN}`;
}

/**
 * Removes a tenant's expired browser tokens. Of the browser tokens with the given token's original token, only the newest `most` remain.
 * The value of `minted_by` starts with the id of the original token.
 */
export function removeOldHeirs(tenantId: string, tokenId: string, most: number): Statement {
  return sql`
    DELETE FROM millrace_tokens WHERE tenant_id = ${tenantId} AND signed_in = 1 AND (expires_at <= ${now} OR id IN (
      SELECT h.id FROM millrace_tokens t JOIN millrace_tokens h ON h.tenant_id = t.tenant_id AND h.signed_in = 1
        AND substr(h.minted_by, 1, 16) = substr(trim(coalesce(t.minted_by, '') || ' ' || t.id), 1, 16)
      WHERE t.id = ${tokenId} ORDER BY h.created_at DESC, h.id DESC LIMIT -1 OFFSET ${most}))`;
}

/**
 * Stores a token without a check of the maximum, for callers with direct access to the database. If `forMs` is null, the token never
 * expires. An existing token remains unchanged.
 */
export function grantToken(
  { id, hash, tenantId, actor, scopes }: Omit<NewToken, "expiresAt" | "mintedBy">,
  forMs: number | null,
): Statement {
  return sql`
    INSERT INTO millrace_tokens (id, hash, tenant_id, actor, scopes, created_at, expires_at)
    VALUES (${id}, ${hash}, ${tenantId}, ${actor}, ${scopes.join(" ")}, ${now}, ${now} + ${forMs})
    ON CONFLICT (id) DO NOTHING`;
}

/** Moves a token to another tenant. Tokens that were minted from it stay in their tenant. */
export function moveToken(id: string, tenantId: string): Statement {
  return sql`UPDATE millrace_tokens SET tenant_id = ${tenantId} WHERE id = ${id}`;
}

/** Selects the columns of tokens that the API returns. */
export function selectTokens(where: Statement): Statement {
  return sql`SELECT ${SHOWN} FROM millrace_tokens WHERE ${where}`;
}

/** Selects a tenant's tokens, newest first. */
export function selectTokensOf(tenantId: string, limit: number): Statement {
  return selectTokens(sql`tenant_id = ${tenantId} ORDER BY created_at DESC, id DESC LIMIT ${limit}`);
}

export function selectOwner(id: string): Statement {
  return sql`SELECT tenant_id, actor FROM millrace_tokens WHERE id = ${id}`;
}

/**
 * Selects the tenant of a token or of its descendants. The actor is null if the token was removed. The statement scans the whole table,
 * which is small.
 */
export function selectFamilyOwner(id: string): Statement {
  return sql`
    SELECT tenant_id, (SELECT actor FROM millrace_tokens WHERE id = ${id}) AS actor FROM millrace_tokens
      WHERE id = ${id} OR ${comesFrom(id)} LIMIT 1`;
}

/** The condition that a token of a tenant exists and has not expired. */
export function isGood(tenantId: string, id: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_tokens
    WHERE id = ${id} AND tenant_id = ${tenantId} AND (expires_at IS NULL OR expires_at > ${now}))`;
}

/** The condition that a row is this token of a tenant. */
export function isToken(tenantId: string, id: string): Statement {
  return sql`tenant_id = ${tenantId} AND id = ${id}`;
}

/** The condition that a row is this token of a tenant or one of its descendants. */
function isOrComesFrom(tenantId: string, id: string): Statement {
  return sql`tenant_id = ${tenantId} AND (id = ${id} OR ${comesFrom(id)})`;
}

function comesFrom(id: string): Statement {
  return sql`instr(' ' || minted_by || ' ', ' ' || ${id} || ' ') > 0`;
}

/** The condition that this token of a tenant, or one of its descendants, exists. */
export function isFamilyThere(tenantId: string, id: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_tokens WHERE ${isOrComesFrom(tenantId, id)})`;
}

export function isThere(tenantId: string, id: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_tokens WHERE ${isToken(tenantId, id)})`;
}

/** Selects the ids of a token's descendants as one JSON object, for the audit of its revocation. */
export function listDescendants(tenantId: string, id: string): Statement {
  return sql`
    SELECT json_object('descendants', json((SELECT json_group_array(id) FROM millrace_tokens
      WHERE tenant_id = ${tenantId} AND ${comesFrom(id)})))`;
}

export function removeToken(tenantId: string, id: string): Statement {
  return sql`DELETE FROM millrace_tokens WHERE ${isToken(tenantId, id)}`;
}

/**
 * Removes a token with its descendants. The statement has a condition instead of a list of ids, so that a descendant that was minted just
 * before this statement is removed too.
 */
export function removeFamily(tenantId: string, id: string): Statement {
  return sql`DELETE FROM millrace_tokens WHERE ${isOrComesFrom(tenantId, id)}`;
}

/** Records the use of a token, at most once an hour. */
export function noteUsed(id: string): Statement {
  return sql`UPDATE millrace_tokens SET used_at = ${now} WHERE id = ${id} AND (used_at IS NULL OR used_at <= ${now} - ${USED_WITHIN_MS})`;
}

/**
 * Removes tokens that expired long ago. The audit shows the name of a token until the token is removed. The statement scans the whole
 * table, which is small. The statement returns a row for each removed row.
 */
export function removeExpired(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_tokens WHERE id IN (SELECT id FROM millrace_tokens
      WHERE expires_at <= ${now} - ${keepMs} LIMIT ${limit}) RETURNING 1 AS gone`;
}
