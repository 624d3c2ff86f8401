import { queueBinding } from "../contract/bindings.ts";
import { within } from "../contract/within.ts";

/** The send time that is used for a queue that cannot report its backlog. The value is the earliest possible time. */
export const UNKNOWN = 0;

/**
 * The send time of the oldest message in each queue's backlog, in milliseconds. Empty queues are not in the result. A queue that cannot
 * report its backlog has the value `UNKNOWN`.
 */
export async function oldestWaiting(env: object, queues: readonly string[]): Promise<Map<string, number>> {
  const oldest = new Map<string, number>();
  await Promise.all(
    [...new Set(queues)].map(async (queue) => {
      try {
        const { backlogCount, oldestMessageTimestamp } = await within(queueBinding(env, queue).metrics());
        if (backlogCount > 0 && oldestMessageTimestamp) oldest.set(queue, oldestMessageTimestamp.getTime());
      } catch {
        oldest.set(queue, UNKNOWN);
      }
    }),
  );
  return oldest;
}

/** Time in milliseconds within which the delivery count of a queue that delivers must increase. Deliveries are counted once a minute. */
const STILL_MS = 120_000;

interface Stand {
  readonly oldest: number;
  readonly delivered: number;
  readonly since: number;
}

/**
 * Detects queues that have stopped delivering although messages wait in them. The backlog alone does not show whether a queue has stopped
 * or is merely long. The readings are stored only in memory.
 */
export class Standstill {
  readonly #stands = new Map<string, Stand>();

  /**
   * Records one reading of a queue. Returns true if the queue's oldest message and the queue's delivery count have not changed for two
   * minutes.
   */
  note(queue: string, oldest: number, delivered: number, at = Date.now()): boolean {
    const before = this.#stands.get(queue);
    if (before?.oldest === oldest && before.delivered === delivered && before.since <= at) return at - before.since >= STILL_MS;
    this.#stands.set(queue, { oldest, delivered, since: at });
    return false;
  }
}
