import { MAX_DELAY_SECONDS } from "millrace";

/** Compensates floating-point error in sums of fractions of a second. */
const ROUNDING_SLACK_MS = 0.5;

/** The delays of paced messages, and the time at which the next one may leave. */
export interface Paced {
  delays: number[];
  /**
   * The time at which the next message may leave, in milliseconds. Pass this time to the next call, so that two fan-outs share one pace.
   */
  next: number;
}

/**
 * Spreads messages over the coming seconds at a rate per second. A queue counts delays in whole seconds, so each clock second gets the
 * rate, rounded up. At rates below one per second, each message has its own second.
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

/** The stored pace of one agent's commands, shared by all fan-outs. */
export class Pacer {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Returns the delays of this many messages, and the earliest time of the first. */
  spread(messages: number, ratePerSecond: number, now: number): { delays: number[]; from: number } {
    const from = this.#nextAt(ratePerSecond, now);
    const { delays, next } = pace(messages, ratePerSecond, from, now);
    if (messages > 0) this.#sql.exec("UPDATE agent SET next_at = ?", next);
    return { delays, from };
  }

  /** Undoes the spacing of messages that were not sent after all. */
  goBack(at: number): void {
    this.#sql.exec("UPDATE agent SET next_at = ?", at);
  }

  /**
   * Returns the time at which the next message may leave. A new rate applies at once: the delay that the previous rate caused is dropped.
   */
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
