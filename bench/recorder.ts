import { type EngineEnv, ids, query, sql } from "millrace";
import { recorderOf } from "../packages/millrace/src/recorder/client.ts";
import type { Attempt } from "../packages/millrace/src/store/inbox/entry.ts";

/** Number of steps that wait for the recorder concurrently. */
const IN_FLIGHT = 500;

/**
 * Outcomes recorded per second by this many recorders, with a separate instance for each outcome. A caller sends its next outcome after the
 * recorder has stored the previous outcome.
 */
export async function recorderRate(
  env: EngineEnv,
  count: number,
  { shards, series, waiting: inFlight = IN_FLIGHT }: { shards: number; series: string; waiting?: number },
): Promise<number> {
  const sharded = Object.assign(Object.create(env), env, { RECORDER_SHARDS: shards }) as EngineEnv;
  const attempts = Array.from({ length: count }, (_, index) => attemptOf(ids.digest("bench", series, String(index)), series));
  const waiting = attempts.values();
  const start = performance.now();
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      for (const attempt of waiting) await recorderOf(sharded, attempt.key.instanceId).record(attempt, OUTCOME);
    }),
  );
  const seconds = (performance.now() - start) / 1000;
  const [found] = await query<{ rows: number }>(
    env.DB,
    sql`SELECT count(*) AS rows FROM millrace_inbox WHERE step = ${series} AND state = 'done'`,
  );
  if (found?.rows !== count) throw new Error(`Only ${found?.rows} of ${count} outcomes were recorded.`);
  return count / seconds;
}

const OUTCOME = { output: '{"id":"1","at":"upstream","ok":true}', outputRef: null, statements: [], messages: [], error: null };

function attemptOf(instanceId: string, step: string): Attempt {
  const key = { instanceId, step, item: "", generation: 1 };
  const fence = { class: "keyed", token: crypto.randomUUID(), epoch: 1, replay: "", readAt: null } as const;
  return { key, position: 0, after: null, caught: null, saysItRuns: true, ...fence };
}
