/** Undefined outside the engine's tests. */
declare const MILLRACE_SLOW_PLATFORM: boolean | undefined;
/** True with `MILLRACE_SLOW_PLATFORM=true`: see platform-limits.ts. */
export const isSlow = typeof MILLRACE_SLOW_PLATFORM === "boolean" && MILLRACE_SLOW_PLATFORM;

const WITHIN_MS = isSlow ? 180_000 : 45_000;

/**
 * Polls until the condition holds, or throws with the last value after the timeout. The interval grows to 250 ms: all tests share two
 * processors, and every poll costs time.
 */
export async function until<T>(look: () => Promise<T>, right: (seen: T) => boolean, withinMs = WITHIN_MS): Promise<T> {
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
