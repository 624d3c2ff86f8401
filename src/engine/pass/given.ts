import { formatEntryKey } from "../contract/ids.ts";
import type { Seen } from "../store/inbox/entry.ts";
import type { Failure } from "./failure.ts";
import { labelOf } from "./history.ts";

/**
 * The failure of a run with a hint at the output that a person has confirmed last, where the code failed by itself: it may be what the code
 * cannot use, and a retry keeps it. Any other failure as it is.
 */
export function withGiven(failure: Failure, instanceId: string, entries: readonly Seen[]): Failure {
  const [last] = entries.filter(isGiven).toSorted((one, other) => other.updated_at - one.updated_at);
  if (last === undefined || (failure.step !== "" && failure.code !== "config_invalid")) return failure;
  const confirm = `POST /v1/effects/${formatEntryKey({ ...last, instanceId })}/confirm`;
  const which = `the output that a person confirmed for "${labelOf(last.step, last.item)}"`;
  return { ...failure, hint: `It ran with ${which}, and a retry keeps that: if it is wrong, confirm it anew (${confirm}), then retry.` };
}

/** True for an effect whose output is what a person said. */
function isGiven({ token, state, position }: Seen): boolean {
  return token === "operator" && position >= 0 && (state === "confirmed" || state === "done");
}
