// Retention of keys, in days: used by the retention rules, and reported to callers who query a key.

/** Retention of instances that succeeded or were given up by an operator, from their end. */
export const ENDED_DAYS = 30;
/** Retention of failed instances without an operator's action, from their end. */
export const FAILED_DAYS = 90;
/** Retention of the hash of a pruned key, from its pruning. */
export const TOMBSTONE_DAYS = 400;
/** Retention of the hash of an outside event's key, from its acceptance: the retention of an instance plus that of its tombstone. */
export const STATED_DAYS = 430;
/** The platform's retention of a failed run after its end: the maximum of Workers Paid. A retry starts from a step of that run. */
export const REMEMBERED_DAYS = 30;

/** The platform's retention of results and history of complete runs, by workflow, in milliseconds. */
const results = new Map<string, number>();

/** The default exceeds the 26 hours within which the reconciliation checks on the platform how each run ended. */
const DEFAULT_RESULT_MS = 2 * 86_400_000;

/** The definition of a workflow sets its retention, because an instance's row only has the workflow's name. */
export function keepResultsFor(workflow: string, ms: number | undefined): void {
  if (ms === undefined) results.delete(workflow);
  else results.set(workflow, ms);
}

export function resultsKeptMs(workflow: string): number {
  return results.get(workflow) ?? DEFAULT_RESULT_MS;
}
