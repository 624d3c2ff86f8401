import { setTimeout as sleep } from "node:timers/promises";

/** The pause after a refused connection. */
const PAUSE_MS = 50;
/** How long to wait for an answer before a second request is sent in parallel. The waiting time doubles for each further request. */
const BESIDE_MS = 2000;

/**
 * Polls `/healthz` until the engine is healthy, or the signal aborts. Requests have no timeout, because a busy machine needs seconds for an
 * answer. If a request gets no answer, a few further requests are sent in parallel, because a dying runtime never answers a request.
 */
export async function becomesWell(url: string, signal: AbortSignal, { besideMs = BESIDE_MS } = {}): Promise<boolean> {
  const over = new AbortController();
  const asking = AbortSignal.any([over.signal, signal]);
  const open = new Set<Promise<boolean>>();
  const ask = () => {
    const one: Promise<boolean> = isWell(url, asking).finally(() => open.delete(one));
    open.add(one);
  };
  const pause = (ms: number) => sleep(ms, "late" as const, { signal: asking }).catch(() => false);
  try {
    for (let waits = besideMs; !signal.aborted; ) {
      ask();
      const said = await Promise.race([...open, pause(waits)]);
      if (said === true) return true;
      if (said === "late") waits *= 2;
      else await pause(PAUSE_MS);
    }
    return false;
  } finally {
    over.abort();
  }
}

async function isWell(url: string, signal: AbortSignal): Promise<boolean> {
  try {
    const { ok, body } = await fetch(`${url}/healthz`, { signal });
    await body?.cancel();
    return ok;
  } catch {
    return false;
  }
}
