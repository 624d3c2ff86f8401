import { queueBinding } from "../contract/bindings.ts";

/** The send time of the oldest message in each queue's backlog, in milliseconds; absent for empty queues. A queue that cannot say is taken for empty: a repeat is harmless. */
export async function oldestWaiting(env: object, queues: readonly string[]): Promise<Map<string, number>> {
  const oldest = new Map<string, number>();
  await Promise.all(
    [...new Set(queues)].map(async (queue) => {
      try {
        const { backlogCount, oldestMessageTimestamp } = await queueBinding(env, queue).metrics();
        if (backlogCount > 0 && oldestMessageTimestamp) oldest.set(queue, oldestMessageTimestamp.getTime());
      } catch {
        // No metrics: see above.
      }
    }),
  );
  return oldest;
}
