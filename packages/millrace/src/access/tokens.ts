import type { EngineEnv } from "../contract/bindings.ts";
import { isVisible } from "../contract/chosen-name.ts";
import { MillraceError } from "../contract/errors.ts";
import { type Statement, sql } from "../contract/sql.ts";
import { isTenant } from "../contract/tenant.ts";
import { characterCount } from "../contract/text.ts";
import { isScope, newToken } from "../contract/token.ts";
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
  removeFamily,
  removeToken,
  selectTokens,
} from "../store/tokens.ts";
import { forgetToken, forgetTokens, type Grant, SCOPES, type Scope, type StoredToken, type Token } from "./find-token.ts";

export { type Grant, SCOPES, type Scope, type Token } from "./find-token.ts";

/** A token as the API shows it. */
export interface TokenRow extends Required<Pick<Token, "id" | "actor" | "scopes">> {
  createdAt: number;
  /** Milliseconds since the epoch; null if the token does not expire. */
  expiresAt: number | null;
  /** Time of the token's last use, at most an hour too early; null if the token was never used. */
  usedAt: number | null;
  /** True for a browser's token from a sign-in code. */
  signedIn: boolean;
}

export type StoredGrant = Omit<StoredToken, "hash" | "tenant_id" | "minted_by"> & { created_at: number; signed_in: number };

const DAY_MS = 86_400_000;
const USUAL_DAYS = 90;

/** Maximum number of tokens of one tenant, without the tokens of signed-in browsers. An expired token counts for 30 days. */
const MAX_TOKENS = 1000;

/**
 * Makes a token. The token's text is returned only by this call, because only a hash of its secret is stored. `own`: the app's own scopes.
 * Errors: `config_invalid`; `invalid_transition` if the tenant has the maximum number.
 */
export async function mintToken(env: Pick<EngineEnv, "DB">, grant: Grant, own: readonly string[] = []): Promise<string> {
  assertGrant(grant, [...SCOPES, ...own]);
  const { text, insert } = tokenFor(grant);
  const [row] = await query(env.DB, insert);
  if (!row) throw tooMany();
  return text;
}

/**
 * Makes a token in the caller's tenant with at most the caller's scopes and lifetime, and audits it. The token's text is returned only by
 * this call. Default for `days`: 90, or as long as the caller's token. Errors: `forbidden` for a scope that the caller lacks and for more
 * days than it has left; `unauthorized` if the caller's token is gone or expired; `invalid_transition` if the tenant has the maximum
 * number.
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
  if (more !== undefined) throw new MillraceError("forbidden", `Your token lacks the scope \`${more}\`, so it cannot grant it.`);
  const left = Math.ceil(((by.expiresAt ?? Number.POSITIVE_INFINITY) - Date.now()) / DAY_MS);
  if (days !== undefined && days > left) {
    const said = `Your token ends on ${new Date(expiresAt).toISOString()}, so a new token can have at most ${left} days: request fewer, or omit \`days\`.`;
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
  return new MillraceError("invalid_transition", `A tenant has at most ${MAX_TOKENS} tokens: revoke an unused one first.`, detail);
}

/**
 * The error for a caller with a token that another isolate revoked, or that has expired. Also removes the token from this isolate's cache.
 */
export function tokenGone(id: string, detail: { audited?: true } = {}): MillraceError {
  forgetToken(id);
  return new MillraceError("unauthorized", "Your token was revoked or has expired, and no token was made. Use another token.", detail);
}

/** Tokens of a tenant, newest first, without secrets. */
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
 * Revokes a token of the tenant; with `descendants` also all tokens minted from it, directly or indirectly, even if the token itself is
 * gone. The revocation takes effect at once in this isolate, and within 30 seconds in others. Returns false, without an audit row, if no
 * such token exists.
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
  forgetTokens(by.tenantId, id, descendants);
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

export function asTokenRow({ id, actor, scopes, created_at, expires_at, used_at, signed_in }: StoredGrant): TokenRow {
  return {
    ...{ id, actor, scopes: scopes.split(" ") as Scope[], signedIn: signed_in === 1 },
    ...{ createdAt: created_at, expiresAt: expires_at, usedAt: used_at },
  };
}

function tokenAction(verb: Action["verb"], id: string, reason: string, detail: Record<string, unknown>): Action {
  return { id: crypto.randomUUID(), verb, target: id, instanceId: null, reason, detail };
}

/** Removes duplicate scopes and puts the engine's scopes first. */
function inOrder(scopes: readonly Scope[]): Scope[] {
  return [...new Set<Scope>([...SCOPES, ...scopes])].filter((scope) => scopes.includes(scope));
}

/** Validates a grant. Errors: `config_invalid`, worded for an operator who creates a token, because HTTP requests are validated earlier. */
function assertGrant({ tenantId, actor, scopes }: Grant, known: readonly string[]): void {
  assertThat(isTenant(tenantId), `"${tenantId}" is not a tenant: use up to 64 lower case letters, digits, - or _.`);
  assertThat(isVisible(actor) && characterCount(actor) <= 100, "The actor must have 1 to 100 visible characters.");
  assertThat(scopes.length > 0, `Give the token at least one scope of: ${known.join(", ")}.`);
  const unknown = scopes.find((scope) => !known.includes(scope));
  assertThat(unknown === undefined, `"${unknown}" is not a scope. Scopes are: ${known.join(", ")}.`);
  const odd = scopes.find((scope) => !isScope(scope));
  assertThat(odd === undefined, `The scope "${odd}" is invalid: use up to 64 lower case letters, digits and _ : . -, the first a letter.`);
}

function assertThat(holds: boolean, otherwise: string): void {
  if (!holds) throw new MillraceError("config_invalid", otherwise);
}
