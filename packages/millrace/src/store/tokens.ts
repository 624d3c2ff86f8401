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
  /** The token that mints it, if one does. */
  readonly mintedBy?: string | undefined;
}

const SHOWN = fragment(`id, actor, scopes, created_at, expires_at, used_at, signed_in`);
/** How exactly the last use of a token is known: one write in so long, however often it is used. */
export const USED_WITHIN_MS = 3_600_000;

/**
 * Stores a token, if its tenant has fewer than `most` without those of browsers, and if the token that mints it is there and has not
 * expired. A repeat after a database error finds its own row, which is success. Answers the row.
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
 * Keeps a browser's token, which does what another does, as long as that one works and no longer than so many milliseconds. `standsFor`
 * answers the other's id, or nothing. Repeated, it finds its own row. Answers the row.
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
 * Ends a tenant's tokens of browsers that have expired, and of those that come from the same first token as this one does all but
 * the newest so many. The first token is the one at the beginning of `minted_by`.
 */
export function removeOldHeirs(tenantId: string, tokenId: string, most: number): Statement {
  return sql`
    DELETE FROM millrace_tokens WHERE tenant_id = ${tenantId} AND signed_in = 1 AND (expires_at <= ${now} OR id IN (
      SELECT h.id FROM millrace_tokens t JOIN millrace_tokens h ON h.tenant_id = t.tenant_id AND h.signed_in = 1
        AND substr(h.minted_by, 1, 16) = substr(trim(coalesce(t.minted_by, '') || ' ' || t.id), 1, 16)
      WHERE t.id = ${tokenId} ORDER BY h.created_at DESC, h.id DESC LIMIT -1 OFFSET ${most}))`;
}

/**
 * Keeps a token, however many its tenant has: whoever reaches the database itself may. It ends so many milliseconds later, or never. One
 * that is there stays as it is.
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

/** What people may see of the tokens that this condition names. */
export function selectTokens(where: Statement): Statement {
  return sql`SELECT ${SHOWN} FROM millrace_tokens WHERE ${where}`;
}

/** A tenant's tokens, newest first. */
export function selectTokensOf(tenantId: string, limit: number): Statement {
  return selectTokens(sql`tenant_id = ${tenantId} ORDER BY created_at DESC, id DESC LIMIT ${limit}`);
}

/** The tenant and the actor of a token. */
export function selectOwner(id: string): Statement {
  return sql`SELECT tenant_id, actor FROM millrace_tokens WHERE id = ${id}`;
}

/** The tenant of a token or of its descendants; the actor is null where the token itself is gone. Reads a small table. */
export function selectFamilyOwner(id: string): Statement {
  return sql`
    SELECT tenant_id, (SELECT actor FROM millrace_tokens WHERE id = ${id}) AS actor FROM millrace_tokens
      WHERE id = ${id} OR ${comesFrom(id)} LIMIT 1`;
}

/** The condition that a token of a tenant is there and has not expired. */
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

/** The condition that there is this token of a tenant, or one of its descendants. */
export function isFamilyThere(tenantId: string, id: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_tokens WHERE ${isOrComesFrom(tenantId, id)})`;
}

/** The condition that there is this token of a tenant. */
export function isThere(tenantId: string, id: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_tokens WHERE ${isToken(tenantId, id)})`;
}

/** The ids of a token's descendants, as the audit of its revocation lists them: one JSON object. */
export function listDescendants(tenantId: string, id: string): Statement {
  return sql`
    SELECT json_object('descendants', json((SELECT json_group_array(id) FROM millrace_tokens
      WHERE tenant_id = ${tenantId} AND ${comesFrom(id)})))`;
}

/** Removes a token of a tenant. */
export function removeToken(tenantId: string, id: string): Statement {
  return sql`DELETE FROM millrace_tokens WHERE ${isToken(tenantId, id)}`;
}

/** The same with its descendants. A condition selects them, not a list of ids: a token minted just before this statement is removed too. */
export function removeFamily(tenantId: string, id: string): Statement {
  return sql`DELETE FROM millrace_tokens WHERE ${isOrComesFrom(tenantId, id)}`;
}

/** Notes that a token is used, once in an hour, whoever sees it. */
export function noteUsed(id: string): Statement {
  return sql`UPDATE millrace_tokens SET used_at = ${now} WHERE id = ${id} AND (used_at IS NULL OR used_at <= ${now} - ${USED_WITHIN_MS})`;
}

/** Removes tokens that expired long ago: until then their names explain the audit. Reads a small table. Answers a row for each. */
export function removeExpired(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_tokens WHERE id IN (SELECT id FROM millrace_tokens
      WHERE expires_at <= ${now} - ${keepMs} LIMIT ${limit}) RETURNING 1 AS gone`;
}
