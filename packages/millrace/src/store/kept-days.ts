// Retention of keys, in days. The retention rules use these constants, and callers who query a key get them.

/** Retention of instances that succeeded or were given up by an operator, counted from the end of the instance. */
export const ENDED_DAYS = 30;
/** Retention of failed instances without an operator's action, counted from the end of the instance. */
export const FAILED_DAYS = 90;
/** Retention of the hash of a pruned key, counted from the pruning of the key. */
export const TOMBSTONE_DAYS = 400;
/**
 * Retention of the hash of an outside event's key, counted from the acceptance of the event. The value is the sum of an instance's
 * retention and a tombstone's retention.
 */
export const STATED_DAYS = 430;
/**
 * The platform's retention of a failed run after the end of the run, which is the maximum of Workers Paid. A retry starts from a step of
 * the failed run.
 */
export const REMEMBERED_DAYS = 30;

/** The platform's retention of results and history of complete runs, by workflow, in milliseconds. */
const results = new Map<string, number>();

/** The default exceeds the 26 hours within which the reconciliation checks on the platform how each run ended. */
const DEFAULT_RESULT_MS = 2 * 86_400_000;

/**
 * Sets the retention of a workflow's results. The definition of a workflow calls this function, because an instance's row has only the
 * workflow's name.
 */
export function keepResultsFor(workflow: string, ms: number | undefined): void {
  if (ms === undefined) results.delete(workflow);
  else results.set(workflow, ms);
}

export function resultsKeptMs(workflow: string): number {
  return results.get(workflow) ?? DEFAULT_RESULT_MS;
}
