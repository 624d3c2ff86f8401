import { timingSafeEqual } from "node:crypto";
import type { EngineEnv } from "../contract/bindings.ts";
import { sql } from "../contract/sql.ts";
import { keptOf } from "../contract/token.ts";
import { query } from "../store/d1/retry.ts";
import { noteUsed, USED_WITHIN_MS } from "../store/tokens.ts";

/**
 * What a token may do: ask for work, look, act on what is there, see dead letters that name no tenant, mint, list and revoke the tokens of
 * its tenant, pull from its queues, see the health of the whole deployment, which names no tenant, and see what is marked as sensitive.
 */
export const SCOPES = ["enqueue", "read", "operate", "unattributed", "tokens", "pull", "observe", "reveal"] as const;

/** The engine's scopes, and an app's own: lower case letters, digits and `_ : . -`, at most 64, beginning with a letter. */
export type Scope = (typeof SCOPES)[number] | (string & {});

/** What a token stands for. */
export interface Grant {
  tenantId: string;
  /** Who holds it: named in the audit and as the source of messages. 1 to 100 characters. */
  actor: string;
  scopes: readonly Scope[];
  /** Milliseconds since the epoch; default never. */
  expiresAt?: number | undefined;
}

/** A token that was presented and is good. */
export interface Token extends Grant {
  id: string;
  /** The first token of the chain of mints that led to this one, or its own id: limits count all descendants of one as one caller. */
  rootId: string;
}

/** A token's row, as an isolate keeps it. */
export interface StoredToken {
  id: string;
  hash: string;
  tenant_id: string;
  actor: string;
  scopes: string;
  expires_at: number | null;
  used_at: number | null;
  minted_by: string | null;
}

/**
 * How long an isolate trusts what it has read: a deleted token works at most this much longer, and an unknown one is not looked for again.
 */
const TOKEN_CACHE_MS = 30_000;
const TOKEN_CACHE_ENTRIES = 1000;
/** Ids that nobody minted are kept apart, so that whoever makes them up drives out no good one. */
const UNKNOWN_CACHE_ENTRIES = 10_000;

const cache = new Map<string, { row: StoredToken; until: number }>();
/** Until when an id is believed to be nobody's, oldest first. */
const unknown = new Map<string, number>();

/**
 * The token behind a bearer text; undefined when it is malformed, unknown, wrong or expired: the caller need not know which. `beforeLook`
 * is called before the database is asked, which is only for ids that this isolate has not asked for lately; what it throws is thrown.
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
  if (!row || !timingSafeEqual(Buffer.from(row.hash, "hex"), Buffer.from(hash, "hex"))) return undefined;
  if (isOver(row)) return undefined;
  await noteUse(env, row);
  return asToken(row);
}

/** The token of an id that this engine has sealed, if it is there and has not expired. `beforeLook` as in `findToken`. */
export async function findTokenById(
  env: Pick<EngineEnv, "DB">,
  id: string,
  beforeLook: () => Promise<void> = async () => {},
): Promise<Token | undefined> {
  const row = await storedToken(env, id, beforeLook);
  return row && !isOver(row) ? asToken(row) : undefined;
}

/** The first token of the chain that led to this one, as far as this isolate knows it: its own id otherwise. */
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

/** At most once an hour, and in the row that is remembered here: who uses a token is not kept waiting twice, nor refused for that. */
async function noteUse(env: Pick<EngineEnv, "DB">, row: StoredToken): Promise<void> {
  if ((row.used_at ?? 0) > Date.now() - USED_WITHIN_MS) return;
  row.used_at = Date.now();
  await query(env.DB, noteUsed(row.id)).catch(() => {});
}

/**
 * The stored row. Ids are random: nobody can have asked for one before it was minted, so that one that is unknown may be remembered as
 * such.
 */
async function storedToken(env: Pick<EngineEnv, "DB">, id: string, beforeLook: () => Promise<void>): Promise<StoredToken | undefined> {
  const known = cache.get(id);
  if (known && known.until > Date.now()) return known.row;
  if ((unknown.get(id) ?? 0) > Date.now()) return undefined;
  await beforeLook();
  cache.delete(id);
  unknown.delete(id);
  const [row] = await query<StoredToken>(
    env.DB,
    sql`SELECT id, hash, tenant_id, actor, scopes, expires_at, used_at, minted_by FROM millrace_tokens WHERE id = ${id}`,
  );
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

/** Stops trusting a token in this isolate. */
export function forgetToken(id: string): void {
  cache.delete(id);
}

/** The same of a tenant's token, and of its descendants. */
export function forgetTokens(tenantId: string, id: string, descendants: boolean): void {
  for (const [one, { row }] of cache) {
    const isMeant = one === id || (descendants && row.minted_by?.split(" ").includes(id));
    if (isMeant && row.tenant_id === tenantId) cache.delete(one);
  }
}
