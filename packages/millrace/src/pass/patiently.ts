import pRetry from "p-retry";

/** Asks the database between steps, where nobody else would try again. */
export function patiently<T>(ask: () => Promise<T>): Promise<T> {
  return pRetry(ask, { retries: 20, minTimeout: 100, maxTimeout: 30_000, randomize: true });
}
