import { formatEntryKey } from "../contract/ids.ts";
import { labelOf } from "../contract/step-names.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { SKIPPED } from "../store/inbox/outcome.ts";
import type { Failure } from "./failure.ts";

/** A pass that has ended: what it saw on record, and what its code heard. */
interface Passed {
  readonly instanceId: string;
  readonly inbox: { readonly seen: readonly Seen[] };
  readonly course: { hasSettled(label: string, failed: boolean): boolean };
}

/**
 * The failure of a run with a hint at the output that a person has confirmed last, where the code failed by itself, also within a step: it
 * may be what the code cannot use, and a retry keeps it. Any other failure as it is.
 */
export function withConfirmed(failure: Failure, { instanceId, inbox: { seen }, course }: Passed): Failure {
  const [last] = seen.filter((entry) => isConfirmed(entry, course)).toSorted((one, other) => other.updated_at - one.updated_at);
  if (last === undefined || (failure.step !== "" && !BY_ITSELF.has(failure.code))) return failure;
  const confirm = `POST /v1/effects/${formatEntryKey({ ...last, instanceId })}/confirm`;
  const which = `the output that an operator ${last.token === SKIPPED ? "gave" : "confirmed"} for "${labelOf(last.step, last.item)}"`;
  return {
    ...failure,
    hint: `The run used ${which}, and a retry keeps it: if it is wrong, confirm the correct output (${confirm}), then retry.`,
  };
}

/** What a step fails of that no upstream has refused. */
const BY_ITSELF: ReadonlySet<string> = new Set(["config_invalid", "step_failed"]);

/**
 * True for a step of the code whose output is what a person said: that it happened, or that it is skipped, which this pass may have
 * recorded itself.
 */
function isConfirmed({ token, state, position, step, item }: Seen, course: Passed["course"]): boolean {
  if (position < 0) return false;
  if (token === SKIPPED) return state === "done" || (state === "failed" && course.hasSettled(labelOf(step, item), false));
  return token === "operator" && (state === "confirmed" || state === "done");
}
