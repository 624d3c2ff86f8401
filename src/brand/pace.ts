/** The longest delay that is safe to ask a queue for. */
const MAX_DELAY_SECONDS = 43_200;
/** Sums of fractions of a second come out a hair short. */
const HAIR_MS = 0.5;

/** Messages that leave at a pace: how long each is delayed, and where the next one may leave. */
export interface Paced {
  delays: number[];
  /** In milliseconds: hand it in again with what comes next, so that two fan-outs together keep the pace of one. */
  next: number;
}

/**
 * Spreads messages over the seconds from now on, at so many a second. A queue counts delays in whole seconds: of any clock second, as
 * many messages leave as the rate allows, rounded up; below one a second, each leaves in a second of its own.
 */
export function pace(messages: number, ratePerSecond: number, next: number, now: number): Paced {
  const second = Math.floor(now / 1000);
  const start = Math.max(next, second * 1000);
  const delays = Array.from({ length: messages }, (_, index) => {
    const leaves = Math.floor((start + (index * 1000) / ratePerSecond + HAIR_MS) / 1000);
    return Math.min(MAX_DELAY_SECONDS, leaves - second);
  });
  return { delays, next: start + (messages * 1000) / ratePerSecond };
}
