import { setTimeout as sleep } from "node:timers/promises";
import { ApiRefusal, apiOf } from "../api-client.ts";
import { Refusal } from "../command.ts";
import { shown } from "./wrangler.ts";
import type { Engine } from "./wrangler-dev.ts";

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
