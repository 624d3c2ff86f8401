// How long what is left of a key stays: the rules of retention are made of these, and who asks for a key is told by them.

/** Instances that ended as was asked or decided, since they did. */
export const ENDED_DAYS = 30;
/** Instances that failed and that nobody looked after, since they did. */
export const FAILED_DAYS = 90;
/** The hash of a pruned key, since it was pruned. */
export const TOMBSTONE_DAYS = 400;
/** The hash of the key of an event from outside, since it was taken: as long as an instance and its tombstone together. */
export const STATED_DAYS = 430;
/** The platform keeps a failed run for so long after its end: the maximum of Workers Paid. A retry starts from a step of it. */
export const REMEMBERED_DAYS = 30;

/** How long the platform keeps the result and the history of complete runs, by the name of their workflow, in milliseconds. */
const results = new Map<string, number>();

/** Longer than the 26 hours within which the reconciliation asks the platform about each end. */
const DEFAULT_RESULT_MS = 2 * 86_400_000;

/** The definition of a workflow says how long its results are kept. The row of an instance names its workflow only. */
export function keepResultsFor(workflow: string, ms: number | undefined): void {
  if (ms === undefined) results.delete(workflow);
  else results.set(workflow, ms);
}

export function resultsKeptMs(workflow: string): number {
  return results.get(workflow) ?? DEFAULT_RESULT_MS;
}
