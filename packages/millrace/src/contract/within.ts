import { MillraceError } from "./errors.ts";

/**
 * Longest wait for one answer of the platform, or of a queue. A call that was given up may still have its effect: whoever makes it can
 * repeat it.
 */
const CALL_LIMIT_MS = 5000;

/** The answer, if it comes in time. Errors: for one that does not, `unavailable` or what `late` makes; the work goes on by itself. */
export async function within<T>(work: Promise<T>, limitMs = CALL_LIMIT_MS, late = () => noAnswer(limitMs)): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), limitMs);
  });
  try {
    return await Promise.race([work, over]);
  } finally {
    clearTimeout(timer);
  }
}

function noAnswer(limitMs: number): MillraceError {
  return new MillraceError("unavailable", `No answer came within ${limitMs / 1000} seconds.`);
}
