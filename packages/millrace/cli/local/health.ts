import { setTimeout as sleep } from "node:timers/promises";

/** Between a refusal, such as a port on which nobody listens yet, and the next question. */
const PAUSE_MS = 50;
/** How long the first question is waited for before another is asked beside it; each further one twice as long. */
const BESIDE_MS = 2000;

/**
 * Asks an engine whether it is well, until it says so or the signal comes. A question stays open for as long as that: a busy machine needs
 * seconds for an answer, and to hang up on it and ask anew would only make it busier. A few more are asked beside it, each after twice the
 * time, since the one that meets a dying runtime is never answered.
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
