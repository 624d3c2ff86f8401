import { counterOf } from "millrace/counters";
import { limitOf } from "millrace/limits";
import type { CounterEnv } from "../packages/millrace/src/counters/client.ts";
import type { LimitEnv } from "../packages/millrace/src/limits/client.ts";

/** Number of callers that wait for a response concurrently. */
const IN_FLIGHT = 200;

/**
 * Requests per second to one rate limit that grants every request. The rate limit has two windows and a token bucket, like the rate limits
 * that upstreams document.
 */
export async function limiterTakeRate(env: LimitEnv, count: number, series: string): Promise<number> {
  const rules = [
    { limit: count, periodMs: 60_000 },
    { limit: 2 * count, periodMs: 86_400_000 },
    { burst: count, refill: count, periodMs: 60_000 },
  ];
  return rate(count, async () => {
    const { taken } = await limitOf(env, series, rules).tryTake();
    if (!taken) throw new Error("There was room.");
  });
}

/** Increments of one counter per second, with a separate call for each increment. */
export async function counterAddRate(env: CounterEnv, count: number, shards: number, series: string): Promise<number> {
  const counter = counterOf(env, series, { shards });
  const perSecond = await rate(count, () => counter.add());
  const sum = await counter.read();
  if (sum !== count) throw new Error(`${count} were added, but the counter has ${sum}.`);
  return perSecond;
}

export async function rate(count: number, act: () => Promise<unknown>): Promise<number> {
  const left = Array.from({ length: count }).values();
  const start = performance.now();
  await Promise.all(
    Array.from({ length: IN_FLIGHT }, async () => {
      for (const _ of left) await act();
    }),
  );
  return count / ((performance.now() - start) / 1000);
}
