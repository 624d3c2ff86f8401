/** The maximum delivery delay of a queue: 12 hours. */
const MAX_DELAY_SECONDS = 12 * 3600;

/** Compensates floating-point error in sums of fractions of a second. */
const ROUNDING_SLACK_MS = 0.5;

/** The delays of paced messages, and the earliest time of the next message. */
export interface Paced {
  delays: number[];
  /**
   * The earliest time at which the next message may be sent, in milliseconds. Pass this time to the next call, so that two fan-outs
   * together do not exceed the rate.
   */
  next: number;
}

/**
 * Spreads messages over the coming seconds at a rate per second. A queue counts delays in whole seconds, so each clock second gets at most
 * the rate, rounded up to a whole number of messages. If the rate is below one message per second, each second gets at most one message.
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

/** The stored pace of one agent's commands, which all fan-outs of the agent share. */
export class Pacer {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Returns the delays of the given number of messages, and the earliest time of the first message. */
  spread(messages: number, ratePerSecond: number, now: number): { delays: number[]; from: number } {
    const from = this.#nextAt(ratePerSecond, now);
    const { delays, next } = pace(messages, ratePerSecond, from, now);
    if (messages > 0) this.#sql.exec("UPDATE agent SET next_at = ?", next);
    return { delays, from };
  }

  /** Resets the pace to an earlier time, because messages after that time were not sent. */
  goBack(at: number): void {
    this.#sql.exec("UPDATE agent SET next_at = ?", at);
  }

  /**
   * Returns the earliest time at which the next message may be sent. A new rate applies at once, so a longer delay that the previous rate
   * caused is shortened.
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
