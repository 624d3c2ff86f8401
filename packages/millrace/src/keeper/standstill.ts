/** Deliveries are counted once a minute, so that of a queue which delivers two minutes never show none. */
const STILL_MS = 120_000;

interface Stand {
  readonly oldest: number;
  readonly delivered: number;
  readonly since: number;
}

/**
 * Which queues have stopped delivering, though messages wait in them: seen from outside such a queue looks like a long one. Kept in
 * memory: it begins anew with the process.
 */
export class Standstill {
  readonly #stands = new Map<string, Stand>();

  /** Notes what one look has seen of a queue. Answers whether neither its oldest message nor its deliveries have moved for two minutes. */
  note(queue: string, oldest: number, delivered: number, at = Date.now()): boolean {
    const before = this.#stands.get(queue);
    if (before?.oldest === oldest && before.delivered === delivered && before.since <= at) return at - before.since >= STILL_MS;
    this.#stands.set(queue, { oldest, delivered, since: at });
    return false;
  }
}
