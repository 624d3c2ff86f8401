import { timingSafeEqual } from "node:crypto";
import type { EngineEnv } from "../contract/bindings.ts";
import { cellCount, cellNamed, inCell } from "../contract/cells.ts";
import { MillraceError } from "../contract/errors.ts";
import { sql } from "../contract/sql.ts";
import { cellOfToken, keptOf } from "../contract/token.ts";
import { beyond, highestCell } from "../store/cells.ts";
import { query } from "../store/d1/retry.ts";
import { selectHomes } from "../store/moved.ts";
import { noteUsed, USED_WITHIN_MS } from "../store/tokens.ts";

/**
 * The engine's scopes. `enqueue` allows to send messages, and `unattributed` to read dead letters without a tenant. `tokens` allows to
 * mint, list and revoke the tenant's tokens. `pull` allows to pull from the tenant's queues. `observe` allows to read the health of the
 * whole deployment, which contains no tenant names. `reveal` allows to read sensitive fields.
 */
export const SCOPES = ["enqueue", "read", "operate", "unattributed", "tokens", "pull", "observe", "reveal"] as const;

/** A scope of the engine or of an app: lower case letters, digits and `_ : . -`, at most 64 characters. The first character is a letter. */
export type Scope = (typeof SCOPES)[number] | (string & {});

/** The rights that a token grants. */
export interface Grant {
  tenantId: string;
  /** The name of the token's holder, 1 to 100 characters. The audit shows this name, and messages have it as their source. */
  actor: string;
  scopes: readonly Scope[];
  /** The time when the token expires, in milliseconds since the epoch. By default, the token never expires. */
  expiresAt?: number | undefined;
}

/** An authenticated token. */
export interface Token extends Grant {
  id: string;
  /**
   * The id of the token at the start of the chain in which each token minted the next token. Rate limits regard a token and all its
   * descendants as one caller.
   */
  rootId: string;
}

/** A token's row in an isolate's cache. */
export interface StoredToken {
  id: string;
  hash: string;
  tenant_id: string;
  actor: string;
  scopes: string;
  expires_at: number | null;
  used_at: number | null;
  minted_by: string | null;
  cell: number;
}

/**
 * How long an isolate caches the row of a token, or the fact that a token id is unknown. A revoked token can remain valid in an isolate for
 * this time.
 */
const TOKEN_CACHE_MS = 30_000;
const TOKEN_CACHE_ENTRIES = 1000;
/** Unknown ids have a separate cache, so that guessed ids do not displace valid tokens. */
const UNKNOWN_CACHE_ENTRIES = 10_000;

const encoder = new TextEncoder();
const cache = new Map<string, { row: StoredToken; until: number }>();
/** Unknown token ids, each with the time until which it is cached. The oldest id comes first. */
const unknown = new Map<string, number>();

/**
 * Finds the token of a bearer credential. Undefined if the credential is malformed, unknown, wrong or expired. `beforeLook` is called
 * before a database query, which is only needed for an id that is not cached. An error of `beforeLook` is thrown.
 */
export async function findToken(
  env: Pick<EngineEnv, "DB">,
  bearer: string,
  beforeLook: () => Promise<void> = async () => {},
): Promise<Token | undefined> {
  const shown = keptOf(bearer);
  if (!shown) return undefined;
  const { id, hash } = shown;
  const row = await storedToken(env, id, beforeLook);
  if (!row || !timingSafeEqual(encoder.encode(row.hash), encoder.encode(hash))) return undefined;
  if (isOver(row)) return undefined;
  await noteUse(env, row);
  return asToken(row);
}

/**
 * Finds a token by its id. The id must come from a text that this engine signed. Undefined if the token is deleted or expired. `findToken`
 * describes `beforeLook`.
 */
export async function findTokenById(
  env: Pick<EngineEnv, "DB">,
  id: string,
  beforeLook: () => Promise<void> = async () => {},
): Promise<Token | undefined> {
  const row = await storedToken(env, id, beforeLook);
  return row && !isOver(row) ? asToken(row) : undefined;
}

/** The id of the token at the start of the chain of mints, if this isolate has cached the token. Otherwise, the passed id. */
export function knownRoot(id: string): string {
  const known = cache.get(id);
  return known ? rootOf(known.row) : id;
}

function rootOf({ id, minted_by }: Pick<StoredToken, "id" | "minted_by">): string {
  return minted_by?.split(" ")[0] ?? id;
}

function isOver({ expires_at }: Pick<StoredToken, "expires_at">): boolean {
  return expires_at !== null && expires_at <= Date.now();
}

function asToken(row: StoredToken): Token {
  return {
    ...{ id: row.id, rootId: rootOf(row), tenantId: row.tenant_id, actor: row.actor },
    ...{ scopes: row.scopes.split(" ") as Scope[], expiresAt: row.expires_at ?? undefined },
  };
}

/**
 * Records the time of a token's last use, at most once an hour. The cached row is updated first, so that concurrent requests do not repeat
 * the write. A failed write is ignored.
 */
async function noteUse(env: Pick<EngineEnv, "DB">, row: StoredToken): Promise<void> {
  if ((row.used_at ?? 0) > Date.now() - USED_WITHIN_MS) return;
  row.used_at = Date.now();
  await query(inCell(env, row.cell).DB, noteUsed(row.id)).catch(() => {});
}

/**
 * Reads a token's row from the cache or the database. An unknown id can also be cached, because ids are random: no caller can guess an
 * id before its token exists.
 */
async function storedToken(env: Pick<EngineEnv, "DB">, id: string, beforeLook: () => Promise<void>): Promise<StoredToken | undefined> {
  const known = cache.get(id);
  if (known && known.until > Date.now()) return known.row;
  if ((unknown.get(id) ?? 0) > Date.now()) return undefined;
  await beforeLook();
  cache.delete(id);
  unknown.delete(id);
  const row = await tokenIn(env, id, cellOfToken(id));
  const until = Date.now() + TOKEN_CACHE_MS;
  if (!row) {
    const [oldest = ""] = unknown.size >= UNKNOWN_CACHE_ENTRIES ? unknown.keys() : [];
    unknown.delete(oldest);
    unknown.set(id, until);
    return undefined;
  }
  if (cache.size >= TOKEN_CACHE_ENTRIES) cache.clear();
  cache.set(id, { row, until });
  return row;
}

/** Reads a token in a cell. If the cell does not have the token, the cells are read to which tenants of the cell have moved. */
async function tokenIn(env: Pick<EngineEnv, "DB">, id: string, cell: number, asked = new Set<number>()): Promise<StoredToken | undefined> {
  const own = cellNamed(env, cell);
  if (own === undefined && cell > 0 && cell <= (await highestCell(env)))
    throw new MillraceError("config_invalid", beyond("The tenant of this token", cell, cellCount(env)));
  if (own === undefined || asked.has(cell)) return undefined;
  asked.add(cell);
  const [row] = await query<StoredToken>(
    own.DB,
    sql`SELECT id, hash, tenant_id, actor, scopes, expires_at, used_at, minted_by, ${cell} AS cell FROM millrace_tokens WHERE id = ${id}`,
  );
  if (row !== undefined || cellCount(env) === 1) return row;
  for (const { cell: next } of await query<{ cell: number }>(own.DB, selectHomes)) {
    const found = await tokenIn(env, id, next, asked);
    if (found) return found;
  }
  return undefined;
}

/** Removes a token from this isolate's cache. */
export function forgetToken(id: string): void {
  cache.delete(id);
}

/** Removes a tenant's token, and optionally its descendants, from this isolate's cache. */
export function forgetTokens(tenantId: string, id: string, descendants: boolean): void {
  for (const [one, { row }] of cache) {
    const isMeant = one === id || (descendants && row.minted_by?.split(" ").includes(id));
    if (isMeant && row.tenant_id === tenantId) cache.delete(one);
  }
}
