import type { AppGauges } from "millrace/worker";
import { projections } from "../messages/queues.ts";
import { largestObjects } from "./facts/object-sizes.ts";

const OF_WAITING = ["queue_oldest_seconds", "queue_lag_seconds"];

/**
 * The lag of the projection behind its ledgers, measured by the time that facts wait in the queue. Measured are the facts that wait now,
 * and the facts of the last five minutes. Facts that a ledger never sent are found by the slow scan.
 */
const projectionLag = (engine: Parameters<AppGauges>[1]): Awaited<ReturnType<AppGauges>> => {
  const waits = engine
    .filter(({ name, labels }) => OF_WAITING.includes(name) && labels.queue === projections.name)
    .filter(({ value }) => !Number.isNaN(value));
  if (waits.length === 0) return [];
  return [{ name: "projection_lag_seconds", labels: { projection: "facts" }, value: Math.max(...waits.map(({ value }) => value)) }];
};

export const gauges: AppGauges = async (env, engine) => [...projectionLag(engine), ...(await largestObjects(env))];
