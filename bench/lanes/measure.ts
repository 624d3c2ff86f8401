import { marginalUsd, OPERATIONS_PER_MESSAGE, type Usage } from "../../packages/millrace/src/observe/cost/formula.ts";
import { type AskWorker, median, percentile, repeat, round, say } from "../figures.ts";

const BURST = 1000;
const SINGLY = 500;
const BATCHED = 10_000;
const PACED = 500;
const COUNTED = 300;
const SIDES = ["lane", "seed", "seed-kv"] as const;

/** Compares lanes with the earlier design; each round measures both designs. */
export async function measureLanes(ask: AskWorker, rounds: number) {
  // The first round warms up the runtime and is not counted.
  for (const side of SIDES) await ask(`/burst/${side}?count=${BURST}`);
  const bursts = await repeat(rounds, async () => ({
    lane: await ask<number>(`/burst/lane?count=${BURST}`),
    seed: await ask<number>(`/burst/seed?count=${BURST}`),
    seedKv: await ask<number>(`/burst/seed-kv?count=${BURST}`),
  }));
  // The earlier design has two storages; lanes are compared with the faster storage.
  const lane_burst_ratio = round(median(bursts.map(({ lane, seed, seedKv }) => lane / Math.max(seed, seedKv))));
  say(
    `${BURST} messages sent to one key at once, until all are handled`,
    `entries and an alarm ${median(bursts.map(({ seed }) => seed)).toFixed(0)}/s, on the older storage ${median(bursts.map(({ seedKv }) => seedKv)).toFixed(0)}/s`,
    `lane ${median(bursts.map(({ lane }) => lane)).toFixed(0)}/s`,
    lane_burst_ratio,
  );

  await ask(`/batched?count=${BATCHED}`);
  const kept = await repeat(rounds, async () => ({
    seed: Math.max(await ask<number>(`/singly/seed?count=${SINGLY}`), await ask<number>(`/singly/seed-kv?count=${SINGLY}`)),
    singly: await ask<number>(`/singly/lane?count=${SINGLY}`),
    batched: await ask<number>(`/batched?count=${BATCHED}`),
  }));
  const lane_batch_ratio = round(median(kept.map(({ singly, batched }) => batched / singly)));
  say(
    "messages stored, by one sender after another",
    `entries ${median(kept.map(({ seed }) => seed)).toFixed(0)}/s`,
    `lane singly ${median(kept.map(({ singly }) => singly)).toFixed(0)}/s`,
    `lane by hundreds ${median(kept.map(({ batched }) => batched)).toFixed(0)}/s`,
    `${lane_batch_ratio} (${round(median(kept.map(({ seed, batched }) => batched / seed)))} of entries)`,
  );

  const paced = await repeat(rounds, async () => ({
    lane: await ask<number[]>(`/dispatch/lane?count=${PACED}`),
    seed: await ask<number[]>(`/dispatch/seed?count=${PACED}`),
  }));
  const lateMs = paced.flatMap(({ lane }) => lane);
  const seedMs = paced.flatMap(({ seed }) => seed);
  const lane_p50_ms = percentile(lateMs, 0.5);
  const lane_p99_ms = percentile(lateMs, 0.99);
  say(
    "latency from the send to the handler at fifty messages per second, in whole milliseconds",
    `earlier design (entries and an alarm): p50 ${percentile(seedMs, 0.5)}, p99 ${percentile(seedMs, 0.99)}`,
    `lane p50 ${lane_p50_ms}, p99 ${lane_p99_ms}, mean ${round(lateMs.reduce((sum, ms) => sum + ms, 0) / lateMs.length)}`,
  );

  const usd: Record<string, number> = {};
  for (const way of ["slowly", "at once", "by hundreds"]) {
    const plain = await ask<{ rows: number; alarms: number }>(`/rows/${encodeURIComponent(way)}?count=${COUNTED}`);
    const keyed = await ask<{ rows: number }>(`/rows/${encodeURIComponent(way)}?count=${COUNTED}&keyed`);
    const requests = (way === "by hundreds" ? 0.01 : 1) + plain.alarms;
    usd[way] = usdPerMillion({ rows_written: plain.rows, object_requests: requests });
    say(
      `rows per message that arrives ${way}`,
      `${round(plain.rows)} rows written without a key, ${round(keyed.rows)} with a key`,
      `${round(requests)} requests`,
      `$${usd[way]} per million (Queues $${usdPerMillion({ queue_operations: OPERATIONS_PER_MESSAGE })})`,
    );
  }
  return { lane_burst_ratio, lane_batch_ratio, lane_p50_ms, lane_p99_ms };
}

function usdPerMillion(usage: Usage): number {
  return round(marginalUsd(usage) * 1e6);
}
