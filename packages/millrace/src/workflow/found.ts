import type { StepCall } from "../pass/step-call.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { UNDONE } from "../store/inbox/outcome.ts";

/** What is known of a step: its newest generation; where that did nothing yet, the one before, if it was taken back. */
export function newestOf(entries: readonly Seen[], { name, item }: StepCall): Seen | undefined {
  const [last, before] = entries.filter((entry) => entry.step === name && entry.item === item).toReversed();
  return last?.state === "failed" && before && isOutcome(before) ? before : last;
}

/** True for a step that answered, also where that was taken back since. */
export function isOutcome({ state, token }: Seen): boolean {
  return state === "done" || (state === "superseded" && token === UNDONE);
}

/** True for an effect of which nobody has recorded whether it happened. */
export function isUnknown({ state }: Seen): boolean {
  return state === "claimed" || state === "confirmed" || state === "in_doubt";
}

/** The newest generation of a step. */
export function lastOf(entries: readonly Seen[], { name, item }: StepCall): Seen | undefined {
  return entries.findLast((entry) => entry.step === name && entry.item === item);
}

/** True for a generation that stands behind one that was taken back, and for one that a person says is as if it had not happened. */
export function isAnswered({ state, token }: Seen): boolean {
  return state === "failed" && token === "operator";
}
