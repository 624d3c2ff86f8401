import type { Usage } from "./prices.ts";

export const MONTH_DAYS = 30;
const MONTH_SECONDS = MONTH_DAYS * 86_400;
/** An object has 128 MB. */
const OBJECT_GB = 0.125;
/** How long an object stays in memory behind its last call, at most. */
const AWAKE_SECONDS = 10;
/** The keeper's rounds begin so often. */
const ROUND_SECONDS = 10;
/** How long a recorder gathers counts before it writes them. */
const TALLY_SECONDS = 10;
/** Rows that the keeper writes for each minute in which something was counted. */
const SUM_ROWS = 3;

/** What a deployment uses a month without any run: the keeper's rounds, which keep its object awake. */
export const KEEPER_MONTH: Usage = {
  objectRequests: MONTH_SECONDS / ROUND_SECONDS,
  objectGbSeconds: MONTH_SECONDS * OBJECT_GB,
};

/**
 * What the recorders use in a month of so many calls, beside these: each call keeps one awake for some seconds, and none for longer than a
 * month; and each writes what was counted as one row in ten seconds at most, which the keeper takes over.
 */
export function recorderMonth(calls: number, recorders: number): Usage {
  const awakeSeconds = Math.min(MONTH_SECONDS * recorders, calls * AWAKE_SECONDS);
  const sums = (Math.min(MONTH_SECONDS, awakeSeconds) / 60) * SUM_ROWS;
  return { objectGbSeconds: awakeSeconds * OBJECT_GB, rowsWritten: (awakeSeconds / TALLY_SECONDS) * 2 + sums };
}
