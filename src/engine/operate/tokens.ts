import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { now, sql } from "../contract/sql.ts";
import { query } from "../store/retry.ts";

/**
 * What a token may do: ask for work, look, act on what is there, hold the embedded upstreams by their faults, and see dead
 * letters that name no tenant.
 */
export const SCOPES = ["enqueue", "read", "operate", "embedded", "unattributed"] as const;
export type Scope = (typeof SCOPES)[number];

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
}

interface StoredToken {
  id: string;
  hash: string;
  tenant_id: string;
  actor: string;
  scopes: string;
  expires_at: number | null;
}

/** How long an isolate trusts what it has read: a deleted token works at most this much longer, and an unknown one is not looked for again. */
const TOKEN_CACHE_MS = 30_000;
const TOKEN_CACHE_ENTRIES = 1000;
/** Ids that nobody minted are kept apart, so that whoever makes them up drives out no good one. */
const UNKNOWN_CACHE_ENTRIES = 10_000;
const TOKEN = /^mr_([0-9a-f]{16})_([A-Za-z0-9_-]{43})$/;
const TENANT = /^[a-z0-9][a-z0-9_-]{0,63}$/;

const cache = new Map<string, { row: StoredToken; until: number }>();
/** Until when an id is believed to be nobody's, oldest first. */
const unknown = new Map<string, number>();

/** Makes a token. Its text is answered here and never again: only a hash of its secret is stored. Errors: `config_invalid`. */
export async function mintToken(env: Pick<EngineEnv, "DB">, grant: Grant): Promise<string> {
  check(TENANT.test(grant.tenantId), `"${grant.tenantId}" is not a tenant: use up to 64 lower case letters, digits, - or _.`);
  check(grant.actor.length >= 1 && grant.actor.length <= 100, "Name the actor in 1 to 100 characters.");
  check(grant.scopes.length > 0, `Give the token at least one scope of: ${SCOPES.join(", ")}.`);
  const unknown = grant.scopes.find((scope) => !SCOPES.includes(scope));
  check(unknown === undefined, `"${unknown}" is not a scope. Scopes are: ${SCOPES.join(", ")}.`);

  // The insert may be repeated over a blip of the database: finding its own row there is success.
  const id = randomBytes(8).toString("hex");
  const secret = randomBytes(32).toString("base64url");
  await query(
    env.DB,
    sql`
      INSERT INTO tokens (id, hash, tenant_id, actor, scopes, created_at, expires_at)
      VALUES (${id}, ${hashOf(secret).toString("hex")}, ${grant.tenantId}, ${grant.actor}, ${grant.scopes.join(" ")}, ${now}, ${grant.expiresAt ?? null})
      ON CONFLICT (id) DO UPDATE SET id = excluded.id WHERE tokens.hash = excluded.hash`,
  );
  return `mr_${id}_${secret}`;
}

/**
 * The token behind a bearer text; undefined when it is malformed, unknown, wrong or expired: the caller need not know which. `beforeLook`
 * is called before the database is asked, which is only for ids that this isolate has not asked for lately; what it throws is thrown.
 */
export async function findToken(
  env: Pick<EngineEnv, "DB">,
  bearer: string,
  beforeLook: () => Promise<void> = async () => {},
): Promise<Token | undefined> {
  const [, id, secret] = TOKEN.exec(bearer) ?? [];
  if (!id || !secret) return undefined;
  const row = await read(env, id, beforeLook);
  if (!row || !timingSafeEqual(Buffer.from(row.hash, "hex"), hashOf(secret))) return undefined;
  if (row.expires_at !== null && row.expires_at <= Date.now()) return undefined;
  return {
    id,
    tenantId: row.tenant_id,
    actor: row.actor,
    scopes: row.scopes.split(" ") as Scope[],
    expiresAt: row.expires_at ?? undefined,
  };
}

/** The stored row. Ids are random: nobody can have asked for one before it was minted, so that one that is unknown may be remembered as such. */
async function read(env: Pick<EngineEnv, "DB">, id: string, beforeLook: () => Promise<void>): Promise<StoredToken | undefined> {
  const known = cache.get(id);
  if (known && known.until > Date.now()) return known.row;
  if ((unknown.get(id) ?? 0) > Date.now()) return undefined;
  await beforeLook();
  cache.delete(id);
  unknown.delete(id);
  const [row] = await query<StoredToken>(env.DB, sql`SELECT id, hash, tenant_id, actor, scopes, expires_at FROM tokens WHERE id = ${id}`);
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

/** The secret is 256 random bits: one round of SHA-256 is enough, there is nothing to guess. */
function hashOf(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

function check(holds: boolean, otherwise: string): void {
  if (!holds) throw new MillraceError("config_invalid", otherwise);
}
