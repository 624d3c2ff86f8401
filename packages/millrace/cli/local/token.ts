import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { keptOf, newToken } from "../../src/contract/token.ts";
import { grantToken, moveToken } from "../../src/store/tokens.ts";
import { ApiRefusal, apiOf, askerOf } from "../api-client.ts";
import { Refusal } from "../command.ts";
import { SCOPES } from "../token/request.ts";
import { asText } from "../token/statements.ts";
import { shown } from "./wrangler.ts";
import type { Engine } from "./wrangler-dev.ts";

const TENANT = "acme";
const ACTOR = "local";

/** The token of a local engine, created once in a file that only its owner can read. */
export function localToken(file: string): string {
  const kept = read(file);
  if (kept !== undefined) return kept;
  const { text: token } = newToken();
  rmSync(file, { force: true });
  writeFileSync(file, `${token}\n`, { flag: "wx", mode: 0o600 });
  return token;
}

/** The curl option that sends the token. curl reads the token from its file, so that a copied command does not contain the token. */
export function authOption(file: string): string {
  const path = shown(file).startsWith("..") ? file : shown(file);
  const quoted = /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
  return `-H "Authorization: Bearer $(cat ${quoted})"`;
}

/** SQL that stores the hash of the token, and changes the token's tenant if `tenant` is set. */
export function insertToken(token: string, tenant?: string): string {
  const kept = keptOf(token);
  if (!kept) throw new Refusal("The token of this checkout is not valid. Delete its file; the next start creates a new one.");
  const granted = grantToken({ ...kept, tenantId: tenant ?? TENANT, actor: ACTOR, scopes: SCOPES }, null);
  return asText(granted, ...(tenant === undefined ? [] : [moveToken(kept.id, tenant)]));
}

function read(file: string): string | undefined {
  try {
    const text = readFileSync(file, "utf8").trim();
    return keptOf(text) && text;
  } catch {
    return undefined;
  }
}

/** How long failed requests are repeated: on a busy machine, a new engine may be slow or answer with status 503 for some time. */
const PATIENCE_MS = 120_000;
const ASK_EVERY_MS = 500;
/** The HTTP statuses for a token that is unknown or lacks a scope. */
const REFUSED = [401, 403];

/**
 * Sends a request with the token from a file. Errors: a `Refusal` at once if the engine rejects the token, or after two minutes of other
 * failures.
 */
export async function requireGoodToken(
  { url, token, logFile }: Pick<Engine, "url" | "token" | "logFile">,
  file: string,
  stop: AbortSignal,
  { patienceMs = PATIENCE_MS, askEveryMs = ASK_EVERY_MS } = {},
): Promise<void> {
  for (const until = Date.now() + patienceMs; ; ) {
    const refusal = await apiOf(url, token)
      .instances("none")
      .then(() => undefined, asRefusal);
    stop.throwIfAborted();
    if (!refusal) return;
    if (refusal.status !== undefined && REFUSED.includes(refusal.status)) {
      throw new Refusal(`The token in ${shown(file)} does not work (${refusal.message}) Delete that file and start again.`);
    }
    if (Date.now() >= until) throw new Refusal(`The engine started, but does not answer: ${refusal.message} More is in ${shown(logFile)}.`);
    await sleep(askEveryMs, undefined, { signal: stop });
  }
}

function asRefusal(error: unknown): ApiRefusal {
  if (error instanceof ApiRefusal) return error;
  throw error;
}

/** Creates a link that signs a browser in to the console. The link works once, within ten minutes, and does not contain the token. */
export async function signInLink(url: string, token: string): Promise<string> {
  const { code } = await askerOf(url, token)<{ code: string }>("POST", "/v1/sign-in-codes", { reason: "a link to the console" });
  return `${url}/console#code=${code}`;
}
