import { MillraceError } from "./errors.ts";

/** Longest wait for one answer of the platform, or of a queue. A call that was given up may still have its effect: whoever makes it can repeat it. */
const CALL_LIMIT_MS = 5000;

/** The answer, if it comes in time. Errors: `unavailable` for one that does not; the work goes on by itself. */
export async function within<T>(work: Promise<T>, limitMs = CALL_LIMIT_MS): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new MillraceError("unavailable", `No answer came within ${limitMs / 1000} seconds.`)), limitMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
