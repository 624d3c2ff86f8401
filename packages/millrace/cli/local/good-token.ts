import { setTimeout as sleep } from "node:timers/promises";
import { ApiRefusal, apiOf } from "../api-client.ts";
import { Refusal } from "../command.ts";
import { shown } from "./wrangler.ts";
import type { Engine } from "./wrangler-dev.ts";

/** An engine that has just come up on a busy machine may be slow, or say 503 for a while. */
const PATIENCE_MS = 120_000;
const ASK_EVERY_MS = 500;
/** What a token is refused with: unknown, or without a scope. */
const REFUSED = [401, 403];

/**
 * Asks the engine something with the token of a file. Errors: a `Refusal` that blames the token when the engine refuses it, at once; one
 * that says what happened instead when nothing else was heard for two minutes.
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
