import pRetry from "p-retry";

/** Repeats a database read between steps, where the platform does not retry. */
export function patiently<T>(ask: () => Promise<T>): Promise<T> {
  return pRetry(ask, { retries: 20, minTimeout: 100, maxTimeout: 30_000, randomize: true });
}
