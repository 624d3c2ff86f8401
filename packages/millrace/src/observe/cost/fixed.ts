import type { Usage } from "./prices.ts";

export const MONTH_DAYS = 30;
const MONTH_SECONDS = MONTH_DAYS * 86_400;
/** The memory of a Durable Object, in GB. */
const OBJECT_GB = 0.125;
/** Maximum time for which a Durable Object stays in memory after its last call, in seconds. */
const AWAKE_SECONDS = 10;
/** Time between two rounds of the keeper, in seconds. */
const ROUND_SECONDS = 10;
/** How long a recorder gathers counts before it writes them, in seconds. */
const TALLY_SECONDS = 10;
/** Number of rows that the keeper writes for each minute that has counts. */
const SUM_ROWS = 3;

/**
 * Monthly usage of a deployment without runs. The usage comes from the keeper's rounds, which keep the keeper's Durable Object in memory.
 */
export const KEEPER_MONTH: Usage = {
  object_requests: MONTH_SECONDS / ROUND_SECONDS,
  object_gb_seconds: MONTH_SECONDS * OBJECT_GB,
};

/**
 * The recorders' monthly usage for the given number of calls, without the calls themselves. Each call keeps a recorder in memory for some
 * seconds, and each recorder is in memory for at most one month. Each recorder writes at most one row of counts per ten seconds, and the
 * keeper merges these rows.
 */
export function recorderMonth(calls: number, recorders: number): Usage {
  const awakeSeconds = Math.min(MONTH_SECONDS * recorders, calls * AWAKE_SECONDS);
  const sums = (Math.min(MONTH_SECONDS, awakeSeconds) / 60) * SUM_ROWS;
  return { object_gb_seconds: awakeSeconds * OBJECT_GB, rows_written: (awakeSeconds / TALLY_SECONDS) * 2 + sums };
}
