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
