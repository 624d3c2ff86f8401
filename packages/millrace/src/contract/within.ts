import { MillraceError } from "./errors.ts";

/**
 * Time limit of each call of the platform or a queue. A call that timed out may still have its effect, so callers must be able to repeat
 * the call.
 */
const CALL_LIMIT_MS = 5000;

/**
 * Returns the result of a promise that settles within a time limit. After the limit throws `unavailable`, or the error of `late`; the
 * work continues in the background.
 */
export async function within<T>(work: Promise<T>, limitMs = CALL_LIMIT_MS, late: () => Error = () => noAnswer(limitMs)): Promise<T> {
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

/** The keeper checks a row that has not changed for this time. */
export const KEEPER_PATIENCE_MS = 10_000;

/** Time limit for the confirmation of a committed message. After this time the keeper sends the message again. */
export const CONFIRM_WITHIN_MS = 10_000;

/** Maximum difference between the clocks of the platform's machines. */
export const CLOCKS_APART_MS = 1000;

/** The result of one part of a repair. A repair runs in small parts, so that more urgent duties of the keeper are not delayed. */
export interface Portion {
  readonly did: number;
  /** True when the repair has further parts to run. */
  readonly more: boolean;
}
