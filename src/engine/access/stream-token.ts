import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { sealed, unsealed } from "../contract/sealed.ts";
import type { Operator } from "../store/actions.ts";
import type { Token } from "./tokens.ts";

/** A stream is opened within so much of its token's minting. */
const STREAM_TOKEN_VALID_MS = 60_000;

/** The paths of streams: nothing else is opened by such a token. */
export const STREAM_PATH = /^\/v1\/(?:[\w-]+\/){0,2}stream$/;

const PURPOSE = "stream token";

/** What it lets its holder do, whatever else its minter may. */
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
 * A token for a browser, whose EventSource sends no headers: it opens the stream of one path as its minter, for 60 seconds and no longer
 * than the minter's own token works. Nothing is stored for it. Errors: `config_invalid` without MILLRACE_KEY.
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

/** Who opens the stream of a path with such a token; `expired` for one whose time is over, undefined for one that is not of this path. */
export function readStreamToken(env: Pick<EngineEnv, "MILLRACE_KEY">, token: string, path: string): Token | "expired" | undefined {
  const said = schema.safeParse(unsealed(env.MILLRACE_KEY, PURPOSE, token));
  if (!said.success || said.data.path !== path || !STREAM_PATH.test(path)) return undefined;
  const { id, tenant, actor, scopes, expires } = said.data;
  return expires <= Date.now() ? "expired" : { id, tenantId: tenant, actor, scopes };
}
