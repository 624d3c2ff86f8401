/** Deliveries are counted once a minute, so a queue that delivers has a higher count within this time, in milliseconds. */
const STILL_MS = 120_000;

interface Stand {
  readonly oldest: number;
  readonly delivered: number;
  readonly since: number;
}

/**
 * Detects queues that have stopped delivering although messages wait in them. The backlog alone does not distinguish such a queue from a
 * long one. The readings are only in memory.
 */
export class Standstill {
  readonly #stands = new Map<string, Stand>();

  /** Records one reading of a queue. Returns whether its oldest message and its delivery count have been the same for two minutes. */
  note(queue: string, oldest: number, delivered: number, at = Date.now()): boolean {
    const before = this.#stands.get(queue);
    if (before?.oldest === oldest && before.delivered === delivered && before.since <= at) return at - before.since >= STILL_MS;
    this.#stands.set(queue, { oldest, delivered, since: at });
    return false;
  }
}
