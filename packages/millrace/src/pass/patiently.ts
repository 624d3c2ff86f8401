import pRetry from "p-retry";

/** Repeats a failed database read in code between steps, because the platform retries only steps. */
export function patiently<T>(ask: () => Promise<T>): Promise<T> {
  return pRetry(ask, { retries: 20, minTimeout: 100, maxTimeout: 30_000, randomize: true });
}
