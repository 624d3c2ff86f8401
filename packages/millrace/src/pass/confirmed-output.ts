import { formatEntryKey } from "../contract/ids.ts";
import { labelOf } from "../contract/step-names.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { SKIPPED } from "../store/inbox/outcome.ts";
import type { Failure } from "./failure.ts";

interface Passed {
  readonly instanceId: string;
  readonly inbox: { readonly seen: readonly Seen[] };
  readonly course: { hasSettled(label: string, failed: boolean): boolean };
}

/**
 * Adds a hint to a failure of the workflow's code. The hint says that the output that an operator confirmed last may be the reason, and
 * that a retry keeps this output.
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

/** Codes of failures that no upstream caused. */
const BY_ITSELF: ReadonlySet<string> = new Set(["config_invalid", "step_failed"]);

/**
 * True for a step whose output an operator gave by a confirmation or by a skip. This replay may have recorded the output of a skip itself.
 */
function isConfirmed({ token, state, position, step, item }: Seen, course: Passed["course"]): boolean {
  if (position < 0) return false;
  if (token === SKIPPED) return state === "done" || (state === "failed" && course.hasSettled(labelOf(step, item), false));
  return token === "operator" && (state === "confirmed" || state === "done");
}
