/** The verdicts of a dry run on an effect, and the meaning of each. */
export const PLAN_VERDICTS = {
  kept: "it happened and is kept",
  runs: "it runs, or runs again",
  caught: "it failed and the code continued; the same error is thrown again",
  skipped: "an operator skipped it",
  held: "its next attempt starts when the instance is resumed",
  under_way: "an attempt is running or its answer was lost; its outcome is recorded first",
  undone: "it is undone, or already was",
  stays: "it remains, because it has no undo handler",
  asked: "the upstream is asked first whether it happened",
  repeated: "it may have happened; it runs again under its key and is then undone",
  nothing: "it did not happen",
  in_doubt: "an operator must decide whether it happened",
  unknown: "it failed without a recorded outcome and may have happened",
  needs_output: "it happened, and an operator must give its output",
} as const;

export type PlanVerdict = keyof typeof PLAN_VERDICTS;
