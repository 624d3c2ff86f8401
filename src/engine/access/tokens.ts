import { timingSafeEqual } from "node:crypto";
import type { EngineEnv } from "../contract/bindings.ts";
import { isVisible } from "../contract/chosen-name.ts";
import { MillraceError } from "../contract/errors.ts";
import { type Statement, sql } from "../contract/sql.ts";
import { isTenant } from "../contract/tenant.ts";
import { characterCount } from "../contract/text.ts";
import { isScope, keptOf, newToken } from "../contract/token.ts";
import { type Action, applied, audit, auditDone, type Operator } from "../store/actions.ts";
import { namedBatch } from "../store/d1/named.ts";
import { keysetPage, type Page, type PageRequest } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";
import {
  insertToken,
  isFamilyThere,
  isGood,
  isThere,
  isToken,
  listDescendants,
  noteUsed,
  removeFamily,
  removeToken,
  selectTokens,
  USED_WITHIN_MS,
} from "../store/tokens.ts";

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

/** A token as its tenant sees it. */
export interface TokenRow extends Required<Pick<Token, "id" | "actor" | "scopes">> {
  createdAt: number;
  /** Null is never. */
  expiresAt: number | null;
  /** At most an hour before its last use; null where it has not been used. */
  usedAt: number | null;
  /** True for a browser's, by a sign-in code. */
  signedIn: boolean;
}

interface StoredToken {
  id: string;
  hash: string;
  tenant_id: string;
  actor: string;
  scopes: string;
  expires_at: number | null;
  used_at: number | null;
  minted_by: string | null;
}

export type StoredGrant = Omit<StoredToken, "hash" | "tenant_id" | "minted_by"> & { created_at: number; signed_in: number };

const DAY_MS = 86_400_000;
const USUAL_DAYS = 90;

/** Tokens of one tenant, without those of browsers: those that expired stay for 30 days. */
const MAX_TOKENS = 1000;

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
 * Makes a token. Its text is answered here and never again: only a hash of its secret is stored. `own` are the app's own scopes. Errors:
 * `config_invalid`, `invalid_transition` for one more than a tenant may have.
 */
export async function mintToken(env: Pick<EngineEnv, "DB">, grant: Grant, own: readonly string[] = []): Promise<string> {
  assertGrant(grant, [...SCOPES, ...own]);
  const { text, insert } = tokenFor(grant);
  const [row] = await query(env.DB, insert);
  if (!row) throw tooMany();
  return text;
}

/**
 * Makes a token for somebody of the caller's tenant, who can do no more than the caller, nor longer, and audits it. Its text is answered
 * here and never again. Without `days` it works for 90, or as long as the caller's own. Errors: `forbidden` for a scope that the caller
 * lacks and for more days than it has left, `unauthorized` where the caller's own token is gone or has expired, `invalid_transition` for
 * one more than a tenant may have.
 */
export async function issueToken(
  env: Pick<EngineEnv, "DB">,
  by: Token & Operator,
  { actor, scopes, days }: Pick<Grant, "actor" | "scopes"> & { days?: number | undefined },
  reason: string,
): Promise<{ text: string; token: TokenRow }> {
  const expiresAt = Math.min(Date.now() + (days ?? USUAL_DAYS) * DAY_MS, by.expiresAt ?? Number.POSITIVE_INFINITY);
  const grant = { tenantId: by.tenantId, actor, scopes: inOrder(scopes), expiresAt };
  assertGrant(grant, scopes);
  const more = grant.scopes.find((scope) => !by.scopes.includes(scope));
  if (more !== undefined) throw new MillraceError("forbidden", `Your token lacks the scope \`${more}\`, and so cannot give it to another.`);
  const left = Math.ceil(((by.expiresAt ?? Number.POSITIVE_INFINITY) - Date.now()) / DAY_MS);
  if (days !== undefined && days > left) {
    const said = `Your token ends on ${new Date(expiresAt).toISOString()}, and so cannot give another one more days than ${left}: ask for fewer, or leave \`days\` out.`;
    throw new MillraceError("forbidden", said);
  }
  const { id, text, insert } = tokenFor(grant, by.tokenId);
  const detail = { actor, scopes: grant.scopes, expires_at: new Date(expiresAt).toISOString(), minted_by: by.id };
  const after = { scopes: grant.scopes, expires_at: detail.expires_at };
  const done = { ...tokenAction("mint", id, reason, detail), after };
  const { minted, minter } = await namedBatch(env.DB, {
    minted: insert,
    audited: audit(by, done, false),
    minter: by.tokenId === undefined ? [] : sql`SELECT 1 AS is_good WHERE ${isGood(by.tenantId, by.tokenId)}`,
  });
  const [row] = minted as unknown as StoredGrant[];
  if (!row && by.tokenId !== undefined && minter.length === 0) throw tokenGone(by.tokenId, { audited: true });
  if (!row) throw tooMany({ audited: true });
  return { text, token: asTokenRow(row) };
}

function tooMany(detail: { audited?: true } = {}): MillraceError {
  return new MillraceError("invalid_transition", `A tenant has at most ${MAX_TOKENS} tokens: revoke one that nobody uses first.`, detail);
}

/** The refusal of a caller whose token another isolate has revoked, or whose time is over. This isolate stops trusting it at once. */
export function tokenGone(id: string, detail: { audited?: true } = {}): MillraceError {
  cache.delete(id);
  return new MillraceError("unauthorized", "Your token was revoked, or has expired: nothing was minted. Send another token.", detail);
}

/** Tokens of a tenant, newest first: without anything that would let one be used. */
export function listTokens(env: Pick<EngineEnv, "DB">, by: Operator, request: PageRequest): Promise<Page<TokenRow>> {
  return keysetPage(
    request,
    ({ createdAt, id }: TokenRow) => ({ at: createdAt, id }),
    async (before, limit) => {
      const rows = await query<StoredGrant>(
        env.DB,
        selectTokens(sql`
          tenant_id = ${by.tenantId} AND (created_at, id) < (${before.at}, ${before.id}) ORDER BY created_at DESC, id DESC LIMIT ${limit}`),
      );
      return rows.map(asTokenRow);
    },
  );
}

/**
 * Ends a token of the tenant; with `descendants` also all that it minted, and those that these minted, even where it is gone itself. At once
 * here, within 30 seconds in isolates that have seen them. Answers false, and audits nothing, where there is none.
 */
export async function revokeToken(
  env: Pick<EngineEnv, "DB">,
  by: Operator,
  id: string,
  reason: string,
  { descendants = false }: { descendants?: boolean } = {},
): Promise<boolean> {
  const [own] = await query<StoredGrant>(env.DB, selectTokens(isToken(by.tenantId, id)));
  const before = own && { scopes: asTokenRow(own).scopes, expires_at: own.expires_at && new Date(own.expires_at).toISOString() };
  const found = descendants ? listDescendants(by.tenantId, id) : undefined;
  const action = { ...tokenAction("revoke", id, reason, { actor: own?.actor ?? null }), found, before };
  const { done } = await namedBatch(env.DB, {
    audited: auditDone(by, action, "applied", descendants ? isFamilyThere(by.tenantId, id) : isThere(by.tenantId, id)),
    removed: descendants ? removeFamily(by.tenantId, id) : removeToken(by.tenantId, id),
    done: applied(action.id),
  });
  for (const [one, { row }] of cache) {
    const isMeant = one === id || (descendants && row.minted_by?.split(" ").includes(id));
    if (isMeant && row.tenant_id === by.tenantId) cache.delete(one);
  }
  return done.length > 0;
}

function tokenFor({ tenantId, actor, scopes, expiresAt }: Grant, mintedBy?: string): { id: string; text: string; insert: Statement } {
  const { text, ...kept } = newToken();
  return {
    id: kept.id,
    text,
    insert: insertToken({ ...kept, tenantId, actor, scopes, expiresAt: expiresAt ?? null, mintedBy }, MAX_TOKENS),
  };
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
    sql`SELECT id, hash, tenant_id, actor, scopes, expires_at, used_at, minted_by FROM tokens WHERE id = ${id}`,
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

/** A row as its tenant sees it. */
export function asTokenRow({ id, actor, scopes, created_at, expires_at, used_at, signed_in }: StoredGrant): TokenRow {
  return {
    ...{ id, actor, scopes: scopes.split(" ") as Scope[], signedIn: signed_in === 1 },
    ...{ createdAt: created_at, expiresAt: expires_at, usedAt: used_at },
  };
}

function tokenAction(verb: Action["verb"], id: string, reason: string, detail: Record<string, unknown>): Action {
  return { id: crypto.randomUUID(), verb, target: id, instanceId: null, reason, detail };
}

/** Each scope once: the engine's first. */
function inOrder(scopes: readonly Scope[]): Scope[] {
  return [...new Set<Scope>([...SCOPES, ...scopes])].filter((scope) => scopes.includes(scope));
}

/** Errors: `config_invalid`, in the words of whoever may mint: no request brings such a grant here. */
function assertGrant({ tenantId, actor, scopes }: Grant, known: readonly string[]): void {
  assertThat(isTenant(tenantId), `"${tenantId}" is not a tenant: use up to 64 lower case letters, digits, - or _.`);
  assertThat(isVisible(actor) && characterCount(actor) <= 100, "Name the actor in 1 to 100 characters that can be seen.");
  assertThat(scopes.length > 0, `Give the token at least one scope of: ${known.join(", ")}.`);
  const unknown = scopes.find((scope) => !known.includes(scope));
  assertThat(unknown === undefined, `"${unknown}" is not a scope. Scopes are: ${known.join(", ")}.`);
  const odd = scopes.find((scope) => !isScope(scope));
  assertThat(odd === undefined, `The scope "${odd}" is no word: use up to 64 lower case letters, digits and _ : . -, a letter first.`);
}

function assertThat(holds: boolean, otherwise: string): void {
  if (!holds) throw new MillraceError("config_invalid", otherwise);
}
