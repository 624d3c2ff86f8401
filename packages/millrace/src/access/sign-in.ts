import { createHash, randomBytes } from "node:crypto";
import type { EngineEnv } from "../contract/bindings.ts";
import { cellNamed } from "../contract/cells.ts";
import { MillraceError } from "../contract/errors.ts";
import { rowOf } from "../contract/row.ts";
import { sql } from "../contract/sql.ts";
import { newToken } from "../contract/token.ts";
import { type Action, audit, type Operator } from "../store/actions.ts";
import { namedBatch } from "../store/d1/named.ts";
import { query } from "../store/d1/retry.ts";
import { insertCode, removeOldCodes, type StoredCode, selectCode, takeCode, tokenBehind } from "../store/sign-in-codes.ts";
import { insertHeir, removeOldHeirs, selectOwner } from "../store/tokens.ts";
import { TokenRow, tokenGone } from "./tokens.ts";

/** How long a sign-in code can be exchanged. */
const CODE_VALID_MS = 10 * 60_000;
/** How long a browser remains signed in. */
const SIGNED_IN_MS = 12 * 3_600_000;
/**
 * Maximum number of browsers that one token and its descendants sign in at the same time. A further sign-in signs out the browser with the
 * oldest sign-in.
 */
const MAX_BROWSERS = 50;

/** The format of a sign-in code: `mc`, the number of the cell outside the first cell, `_`, and 256 random bits. */
const CODE = /^mc(\d{0,3})_[A-Za-z0-9_-]{43}$/;

/** The next step that errors about an invalid sign-in code recommend. */
const ANOTHER = "Get another one: `npx millrace token link` for an engine of `millrace dev`, POST /v1/sign-in-codes for any other.";

/**
 * Creates a sign-in code. Within ten minutes, a browser can exchange the code once for a new token with the caller's rights. Only the hash
 * of the code is stored. Errors: `forbidden` for a caller without a token, or `unauthorized` if the caller's token was deleted.
 */
export async function issueCode(
  env: Pick<EngineEnv, "DB" | "CELL">,
  { tenantId, tokenId }: Operator,
  reason: string,
): Promise<{ code: string; expiresAt: number }> {
  if (tokenId === undefined) {
    throw new MillraceError("forbidden", "The request has no token to make a code for. You are signed in already: open /console.");
  }
  const code = `mc${env.CELL ?? ""}_${randomBytes(32).toString("base64url")}`;
  const { made } = await namedBatch(env.DB, {
    cleared: removeOldCodes(tenantId),
    made: insertCode({ hash: hashOf(code), tenantId, tokenId, reason }, CODE_VALID_MS),
  });
  const [row] = made;
  if (!row) throw tokenGone(tokenId);
  return { code, expiresAt: Number(row.expires_at) };
}

/** The result of a sign-in: the caller, and the new token of the browser. */
export interface SignedIn {
  readonly text: string;
  readonly tenantId: string;
  readonly token: TokenRow;
}

/**
 * Exchanges a code for a new token with the rights of the token that issued the code. The new token is valid for twelve hours, but not
 * longer than the issuer's token. The audit contains the id of the issuer's token. Errors: `unauthorized`, with the reason.
 */
export async function signIn(given: Pick<EngineEnv, "DB">, code: string): Promise<SignedIn> {
  const hash = hashOf(code);
  const cell = Number(CODE.exec(code)?.[1] || 1);
  const { DB } = cellNamed(given, cell) ?? {};
  const [known] = DB && CODE.test(code) ? await query<StoredCode & Record<string, unknown>>(DB, selectCode(hash)) : [];
  if (!DB || !known) throw refused("This sign-in code is unknown, or expired more than an hour ago.");
  if (known.used_by !== null) throw refused("This sign-in link has been used: it works once.");
  if (known.is_over) throw refused("This sign-in link has expired: it works for 10 minutes.");
  const [owner] = await query<{ actor: string }>(DB, selectOwner(known.token_id));
  if (!owner) throw refused("The token of this sign-in link was revoked.");
  const { id, hash: secret, text } = newToken(cell);
  const by = { tenantId: known.tenant_id, actor: owner.actor, tokenId: known.token_id };
  const done: Action = { id: crypto.randomUUID(), verb: "mint", target: id, instanceId: null, reason: known.reason };
  const { minted } = await namedBatch(DB, {
    taken: takeCode(hash, id),
    minted: insertHeir({ id, hash: secret }, { standsFor: tokenBehind(hash, id), forMs: SIGNED_IN_MS }),
    audited: audit(by, { ...done, detail: { actor: owner.actor, minted_by: known.token_id, signed_in: true } }, false, sql`changes() > 0`),
    ended: removeOldHeirs(known.tenant_id, known.token_id, MAX_BROWSERS),
  });
  const [row] = minted;
  if (!row) throw refused("This sign-in link has just been used, or its token has expired.");
  return { text, tenantId: known.tenant_id, token: rowOf(TokenRow, row) };
}

function refused(why: string): MillraceError {
  return new MillraceError("unauthorized", `${why} ${ANOTHER}`);
}

function hashOf(code: string): string {
  return createHash("sha256").update(code).digest("hex");
}
