import type { AppGauges } from "millrace/worker";
import { projections } from "../messages/queues.ts";

const OF_WAITING = ["queue_oldest_seconds", "queue_lag_seconds"];

/**
 * How far what people read of facts is behind what the ledgers hold: as long as facts wait in their queue, those there now and those of the
 * last five minutes. What a ledger has never sent the slow walk finds.
 */
export const gauges: AppGauges = (_env, engine) => {
  const waits = engine
    .filter(({ name, labels }) => OF_WAITING.includes(name) && labels.queue === projections.name)
    .filter(({ value }) => !Number.isNaN(value));
  if (waits.length === 0) return [];
  return [{ name: "projection_lag_seconds", labels: { projection: "facts" }, value: Math.max(...waits.map(({ value }) => value)) }];
};
