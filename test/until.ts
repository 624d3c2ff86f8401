/**
 * Polls until the condition holds, or throws with the last value after the timeout. The interval grows to 250 ms: all tests share two
 * processors, and every poll costs time.
 */
export async function until<T>(look: () => Promise<T>, right: (seen: T) => boolean, withinMs = 45_000): Promise<T> {
  const deadline = Date.now() + withinMs;
  for (let pauseMs = 15; ; pauseMs = Math.min(pauseMs * 1.6, 250)) {
    const seen = await look();
    if (right(seen)) return seen;
    if (Date.now() > deadline) {
      console.warn(
        `The condition did not hold within ${withinMs} ms, but ${JSON.stringify(seen)?.slice(0, 500)}:`,
        new Error("waited here").stack,
      );
      return seen;
    }
    await scheduler.wait(pauseMs);
  }
}
