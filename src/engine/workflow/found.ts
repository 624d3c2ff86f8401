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

/** True for a step of whose newest generation something is on record. */
export function isBegun(entries: readonly Seen[], { name, item }: StepCall): boolean {
  const last = entries.findLast((entry) => entry.step === name && entry.item === item);
  return last !== undefined && last.state !== "failed";
}
