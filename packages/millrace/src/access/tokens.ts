import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { isVisible } from "../contract/chosen-name.ts";
import { isTenant } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { rowOf, timestamp } from "../contract/row.ts";
import { type Statement, sql } from "../contract/sql.ts";
import { characterCount } from "../contract/text.ts";
import { isScope, newToken } from "../contract/token.ts";
import { type Action, applied, audit, auditDone, type Operator } from "../store/actions.ts";
import { cellOf } from "../store/cells.ts";
import { namedBatch, positionBy, rowPage, selectRows } from "../store/d1/named.ts";
import type { Page, PageRequest } from "../store/d1/paging.ts";
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
import { forgetToken, forgetTokens, type Grant, SCOPES, type Scope, type Token } from "./find-token.ts";

export { type Grant, SCOPES, type Scope, type Token } from "./find-token.ts";

/** A token as the API shows it. */
export const TokenRow = z.object({
  id: z.string(),
  actor: z.string(),
  scopes: z.array(z.string()),
  created_at: timestamp,
  expires_at: timestamp.nullable().meta({ description: "Null is never." }),
  last_used_at: timestamp.nullable().meta({ description: "At most an hour before its last use; null if unused." }),
  signed_in: z.boolean().meta({
    description: "True for a browser token from a sign-in link. It expires after twelve hours and has its own request limit.",
  }),
});
export type TokenRow = z.infer<typeof TokenRow>;

const DAY_MS = 86_400_000;
const USUAL_DAYS = 90;

/** The maximum number of tokens of one tenant, excluding the tokens of browsers. An expired token still counts for 30 days. */
const MAX_TOKENS = 1000;

/**
 * Creates a token. Only this function returns the token's text, because the database stores only a hash of the token's secret. `own`: the
 * app's own scopes. Errors: `config_invalid`; `invalid_transition` if the tenant has the maximum number of tokens.
 */
export async function mintToken(env: Pick<EngineEnv, "DB">, grant: Grant, own: readonly string[] = []): Promise<string> {
  assertGrant(grant, [...SCOPES, ...own]);
  const { DB, CELL } = await cellOf(env as Pick<EngineEnv, "DB" | "CELL">, grant.tenantId);
  const { text, insert } = tokenFor(grant, { cell: CELL });
  const [row] = await query(DB, insert);
  if (!row) throw tooMany();
  return text;
}

/**
 * Creates a token in the caller's tenant with at most the caller's scopes and lifetime, and audits the creation. Only this function returns
 * the token's text. Default for `days`: 90, or as long as the caller's token. Errors: `forbidden` for a scope that the caller lacks and for
 * more days than the caller's token has left; `unauthorized` if the caller's token is gone or expired; `invalid_transition` if the tenant
 * has the maximum number of tokens.
 */
export async function issueToken(
  env: Pick<EngineEnv, "DB" | "CELL">,
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
  const { id, text, insert } = tokenFor(grant, { cell: env.CELL, mintedBy: by.tokenId });
  const detail = { actor, scopes: grant.scopes, expires_at: new Date(expiresAt).toISOString(), minted_by: by.id };
  const after = { scopes: grant.scopes, expires_at: detail.expires_at };
  const done = { ...tokenAction("mint", id, reason, detail), after };
  const { minted, minter } = await namedBatch(env.DB, {
    minted: insert,
    audited: audit(by, done, false),
    minter: by.tokenId === undefined ? [] : sql`SELECT 1 AS is_good WHERE ${isGood(by.tenantId, by.tokenId)}`,
  });
  const [row] = minted;
  if (!row && by.tokenId !== undefined && minter.length === 0) throw tokenGone(by.tokenId, { audited: true });
  if (!row) throw tooMany({ audited: true });
  return { text, token: rowOf(TokenRow, row) };
}

function tooMany(detail: { audited?: true } = {}): MillraceError {
  return new MillraceError("invalid_transition", `A tenant has at most ${MAX_TOKENS} tokens: revoke an unused one first.`, detail);
}

/** The error for a caller whose token was revoked in another isolate, or has expired. Also removes the token from this isolate's cache. */
export function tokenGone(id: string, detail: { audited?: true } = {}): MillraceError {
  forgetToken(id);
  return new MillraceError("unauthorized", "Your token was revoked or has expired, and no token was made. Use another token.", detail);
}

/** Tokens of a tenant, newest first, without secrets. */
export function listTokens(env: Pick<EngineEnv, "DB">, by: Operator, request: PageRequest): Promise<Page<TokenRow>> {
  return rowPage(TokenRow, request, positionBy("created_at", "id"), (before, limit) =>
    query(
      env.DB,
      selectTokens(sql`
        tenant_id = ${by.tenantId} AND (created_at, id) < (${before.at}, ${before.id}) ORDER BY created_at DESC, id DESC LIMIT ${limit}`),
    ),
  );
}

/**
 * Revokes a token of the tenant; with `descendants` also all tokens minted from it, directly or indirectly, even if the token itself is
 * gone. A revocation takes effect at once in this isolate, and within 30 seconds in all other isolates. Returns false, without audit, if
 * the token does not exist.
 */
export async function revokeToken(
  env: Pick<EngineEnv, "DB">,
  by: Operator,
  id: string,
  reason: string,
  { descendants = false }: { descendants?: boolean } = {},
): Promise<boolean> {
  const [own] = await selectRows(env.DB, TokenRow, selectTokens(isToken(by.tenantId, id)));
  const before = own && { scopes: own.scopes, expires_at: own.expires_at };
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

function tokenFor(
  { tenantId, actor, scopes, expiresAt }: Grant,
  { cell, mintedBy }: { cell: number | undefined; mintedBy?: string | undefined },
): { id: string; text: string; insert: Statement } {
  const { text, ...kept } = newToken(cell);
  return {
    id: kept.id,
    text,
    insert: insertToken({ ...kept, tenantId, actor, scopes, expiresAt: expiresAt ?? null, mintedBy }, MAX_TOKENS),
  };
}

function tokenAction(verb: Action["verb"], id: string, reason: string, detail: Record<string, unknown>): Action {
  return { id: crypto.randomUUID(), verb, target: id, instanceId: null, reason, detail };
}

/** Removes duplicates from a list of scopes and sorts the list, with the engine's scopes first. */
function inOrder(scopes: readonly Scope[]): Scope[] {
  return [...new Set<Scope>([...SCOPES, ...scopes])].filter((scope) => scopes.includes(scope));
}

/**
 * Validates the rights of a new token. Errors: `config_invalid`, whose message addresses an operator who creates a token, because a token
 * request over HTTP never has invalid rights.
 */
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
