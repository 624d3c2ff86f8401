import { setTimeout as sleep } from "node:timers/promises";
import type { Engine } from "./wrangler-dev.ts";

const ASK_EVERY_MS = 5000;
/** The timeout of a health check, which is much longer than the duration of a request on a busy machine. */
const PATIENCE_MS = { first: 30_000, most: 240_000 };
/** If a health check is answered within this time, the timeout of the next check is reset to the first timeout. */
const PROMPT_MS = 3000;

/** Checks the health of an engine. Each health check without an answer doubles the next timeout, until the engine answers promptly. */
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
   * Resolves when an engine gave no answer for too long, with this time in ms. Needed because a process may continue to run and no longer
   * answer requests. Never resolves after `over` aborts or wrangler ends.
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

/** Polls a condition that causes no event, such as a removed folder. Never resolves after `over` aborts. */
export async function untilSeen(isSo: () => boolean, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    await sleep(LOOK_EVERY_MS, undefined, { signal: over }).catch(() => undefined);
    if (!over.aborted && isSo()) return;
  }
  return new Promise(() => undefined);
}
