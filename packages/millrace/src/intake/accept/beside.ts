/**
 * Start times of the writes in progress in this isolate, in milliseconds, the earliest first. The platform may cancel a request without
 * running its `finally`, so that an old write counts as ended.
 */
const underWay = new Map<symbol, number>();
const LOST_MS = 5000;

/** Performs a write. `isAlone` is true if no other write is in progress in this isolate. */
export async function beside<T>(write: (isAlone: boolean) => Promise<T>): Promise<T> {
  const at = Date.now();
  for (const [key, began] of underWay) {
    if (at - began < LOST_MS) break;
    underWay.delete(key);
  }
  const own = Symbol();
  const isAlone = underWay.size === 0;
  underWay.set(own, at);
  try {
    return await write(isAlone);
  } finally {
    underWay.delete(own);
  }
}
