import { setTimeout as sleep } from "node:timers/promises";
import type { Engine } from "./wrangler-dev.ts";

const ASK_EVERY_MS = 5000;
/** Far longer than any request of ours takes, also on a busy machine. */
const PATIENCE_MS = { first: 30_000, most: 240_000 };
/** An answer this soon comes from a machine that is itself again. */
const PROMPT_MS = 3000;

/**
 * Asks an engine whether it is well. After one that did not answer, it waits twice as long for the next, until that has answered promptly.
 */
export class Watchdog {
  readonly #askEveryMs: number;
  readonly #patience: { first: number; most: number };
  readonly #promptMs: number;
  #patienceMs: number;

  constructor({ askEveryMs = ASK_EVERY_MS, patienceMs = PATIENCE_MS, promptMs = PROMPT_MS } = {}) {
    this.#askEveryMs = askEveryMs;
    this.#patience = patienceMs;
    this.#promptMs = promptMs;
    this.#patienceMs = patienceMs.first;
  }

  /**
   * Resolves with how long an engine has not answered, in ms, when that is too long: a process may live on and be of no use. Never resolves
   * once `over` is aborted, or after wrangler has ended.
   */
  async untilUnresponsive(engine: Pick<Engine, "answers"> & { ended: Promise<unknown> }, over: AbortSignal): Promise<number> {
    let ended = false;
    void engine.ended.then(() => {
      ended = true;
    });
    while (!over.aborted) {
      await sleep(this.#askEveryMs, undefined, { signal: over }).catch(() => undefined);
      if (over.aborted || ended) break;
      const waits = this.#patienceMs;
      const askedAt = Date.now();
      const answered = await engine.answers(waits);
      if (ended || over.aborted) break;
      if (!answered) {
        this.#patienceMs = Math.min(2 * waits, this.#patience.most);
        return waits;
      }
      if (Date.now() - askedAt <= this.#promptMs) this.#patienceMs = this.#patience.first;
    }
    return new Promise(() => undefined);
  }
}

const LOOK_EVERY_MS = 250;

/** Resolves once something is so that no event tells of, such as a folder that is gone; never once `over` is aborted. */
export async function untilSeen(isSo: () => boolean, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    await sleep(LOOK_EVERY_MS, undefined, { signal: over }).catch(() => undefined);
    if (!over.aborted && isSo()) return;
  }
  return new Promise(() => undefined);
}
