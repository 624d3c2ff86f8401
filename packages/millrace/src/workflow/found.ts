import type { StepCall } from "../pass/step-call.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { UNDONE } from "../store/inbox/outcome.ts";

/**
 * Finds the newest generation of a step. If the newest generation has failed and the previous generation was done or undone, the function
 * returns the previous generation.
 */
export function newestOf(entries: readonly Seen[], { name, item }: StepCall): Seen | undefined {
  const [last, before] = entries.filter((entry) => entry.step === name && entry.item === item).toReversed();
  return last?.state === "failed" && before && isOutcome(before) ? before : last;
}

export function isOutcome({ state, token }: Seen): boolean {
  return state === "done" || (state === "superseded" && token === UNDONE);
}

export function isUnknown({ state }: Seen): boolean {
  return state === "claimed" || state === "confirmed" || state === "in_doubt";
}

export function lastOf(entries: readonly Seen[], { name, item }: StepCall): Seen | undefined {
  return entries.findLast((entry) => entry.step === name && entry.item === item);
}

/** True for a generation that follows an undone generation, and for a generation that an operator rejected ("did not happen"). */
export function isAnswered({ state, token }: Seen): boolean {
  return state === "failed" && token === "operator";
}
