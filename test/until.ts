/**
 * Looks until what it sees is right, or gives up with what it saw last, and says so: a red test shows where it waited in vain. It looks
 * often at first, and less the longer something takes, up to every 250 ms: all tests share two processors, and every look takes of them.
 */
export async function until<T>(look: () => Promise<T>, right: (seen: T) => boolean, withinMs = 45_000): Promise<T> {
  const deadline = Date.now() + withinMs;
  for (let pauseMs = 15; ; pauseMs = Math.min(pauseMs * 1.6, 250)) {
    const seen = await look();
    if (right(seen)) return seen;
    if (Date.now() > deadline) {
      console.warn(`Nothing right came within ${withinMs} ms, but ${JSON.stringify(seen)?.slice(0, 500)}:`, new Error("waited here").stack);
      return seen;
    }
    await scheduler.wait(pauseMs);
  }
}
