import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { sealed, unsealed } from "../contract/token.ts";
import type { Operator } from "../store/actions.ts";
import { findTokenById } from "./find-token.ts";
import { isPersonId } from "./person.ts";
import type { Token } from "./tokens.ts";

/** A browser must open a stream within this time after the creation of the stream's token. */
const STREAM_TOKEN_VALID_MS = 60_000;

/** The paths of streams, the only paths that a stream token opens. */
export const STREAM_PATH = /^\/v1\/(?:[\w-]+\/){0,2}stream$/;

const PURPOSE = "stream token";

/** The scopes of a stream token. They do not depend on the scopes of the token by which the stream token was created. */
const SCOPES = ["read"] as const;

const schema = z.strictObject({
  id: z.string(),
  tenant: z.string(),
  actor: z.string(),
  scopes: z.array(z.enum(SCOPES)),
  path: z.string(),
  expires: z.number(),
});

/**
 * Creates a token for a browser's EventSource, which cannot send headers. The stream token opens the stream of one path with the identity
 * of the caller's token. The stream token is valid for 60 seconds, but no longer than the caller's token. The stream token is signed and
 * not stored. Errors: `config_invalid` without MILLRACE_KEY.
 */
export function mintStreamToken(
  env: Pick<EngineEnv, "MILLRACE_KEY">,
  { id, tenantId, actor, expiresAt }: Token & Operator,
  path: string,
): { token: string; expiresAt: number } {
  const expires = Math.min(Date.now() + STREAM_TOKEN_VALID_MS, expiresAt ?? Number.POSITIVE_INFINITY);
  const token = sealed(env.MILLRACE_KEY, PURPOSE, { id, tenant: tenantId, actor, scopes: SCOPES, path, expires });
  return { token, expiresAt: expires };
}

/**
 * The caller whom a stream token identifies. Returns `expired` after the token's 60 seconds, `revoked` if the token by which it was created
 * is gone, undefined for a token of another path. `beforeLook` is called as by `findToken`.
 */
export async function readStreamToken(
  env: Pick<EngineEnv, "MILLRACE_KEY" | "DB">,
  token: string,
  path: string,
  beforeLook: () => Promise<void>,
): Promise<Token | "expired" | "revoked" | undefined> {
  const read = schema.safeParse(unsealed(env.MILLRACE_KEY, PURPOSE, token));
  if (!read.success || read.data.path !== path || !STREAM_PATH.test(path)) return undefined;
  const { id, tenant, actor, scopes, expires } = read.data;
  if (expires <= Date.now()) return "expired";
  if (isPersonId(id)) return { id, rootId: id, tenantId: tenant, actor, scopes };
  const minter = await findTokenById(env, id, beforeLook);
  return minter ? { ...minter, scopes } : "revoked";
}
