import { type AskWorker, median, round as rounded } from "./figures.ts";

const ADDS = 2_000;
const SHARDS = 32;

/** Measures the requests per second to one rate limit, and how many times faster a counter is with 32 shards than with one shard. */
export async function coordinationFigures(
  ask: AskWorker,
  rounds: number,
): Promise<{ limiter_takes_per_s: number; counter_shard_gain: number }> {
  const measured: { takes: number; one: number; many: number }[] = [];
  // The first round warms up the runtime and is not counted.
  for (let round = 0; round <= rounds; round++) {
    const takes = await ask<number>(`/limiter?count=${ADDS}`);
    const one = await ask<number>(`/counter?count=${ADDS}&shards=1`);
    const many = await ask<number>(`/counter?count=${ADDS}&shards=${SHARDS}`);
    if (round > 0) measured.push({ takes, one, many });
  }
  const [takes, one, many] = (["takes", "one", "many"] as const).map((what) => Math.round(median(measured.map((each) => each[what]))));
  const gain = rounded(median(measured.map((each) => each.many / each.one)));
  console.log(`one limit with three rules\n  ${takes} requests per second`);
  console.log(`one counter, ${ADDS} increments, one call each\n  1 shard ${one}/s · ${SHARDS} shards ${many}/s · ${gain}`);
  return { limiter_takes_per_s: takes ?? 0, counter_shard_gain: gain };
}
