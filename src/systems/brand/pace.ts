import { MAX_DELAY_SECONDS } from "millrace";

/** Compensates floating-point error in sums of fractions of a second. */
const ROUNDING_SLACK_MS = 0.5;

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
    const leaves = Math.floor((start + (index * 1000) / ratePerSecond + ROUNDING_SLACK_MS) / 1000);
    return Math.min(MAX_DELAY_SECONDS, leaves - second);
  });
  return { delays, next: start + (messages * 1000) / ratePerSecond };
}

/** The pace of one agent's commands, kept beside them: two fan-outs, however far apart, keep that of one. */
export class Pacer {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** How long each of so many is delayed, and when the first of them might leave. */
  spread(messages: number, ratePerSecond: number, now: number): { delays: number[]; from: number } {
    const from = this.#nextAt(ratePerSecond, now);
    const { delays, next } = pace(messages, ratePerSecond, from, now);
    if (messages > 0) this.#sql.exec("UPDATE agent SET next_at = ?", next);
    return { delays, from };
  }

  /** Those that were spread from then on have not left after all. */
  goBack(at: number): void {
    this.#sql.exec("UPDATE agent SET next_at = ?", at);
  }

  /** When the next one may leave. Another rate holds at once: what the one before had put off by its slowness is not waited for. */
  #nextAt(rate: number, now: number): number {
    const { next_at } = this.#sql.exec<{ next_at: number }>("SELECT next_at FROM agent").one();
    const [paced] = this.#sql.exec<{ rate_per_second: number }>("SELECT rate_per_second FROM paced");
    if (paced?.rate_per_second === rate) return next_at;
    this.#sql.exec("INSERT OR REPLACE INTO paced (id, rate_per_second) VALUES (1, ?)", rate);
    if (paced === undefined) return next_at;
    const soon = Math.min(next_at, now + 1000 / rate);
    this.#sql.exec("UPDATE agent SET next_at = ?", soon);
    return soon;
  }
}
