import type { EngineEnv } from "../../contract/bindings.ts";
import type { Statement } from "../../contract/sql.ts";
import { labelOf, UNDO_PREFIX } from "../../contract/step-names.ts";
import type { PackedOutput } from "../../guard/output.ts";
import type { Effect } from "../../inspect/effects.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import { selectCutOff } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { DOUBTED } from "../../store/inbox/classes.ts";
import { leaveAlone, skipEntry } from "../../store/inbox/outcome.ts";
import { selectAwaited } from "../../store/waits.ts";
import { unrecorded } from "./left.ts";

/** The consequences of skipping the step at which an undo failed. */
export interface Passing {
  /** The effect or read that the undo ignores after the skip. */
  readonly about: { readonly step: string; readonly item: string };
  readonly follows: string;
  /** True if the operator must give an output that replaces the step's output. */
  readonly takesOutput: boolean;
  /** The write that records the operator's decision, after the action's row. */
  readonly write: (given: PackedOutput, actionId: string) => Statement;
}

/**
 * The possible decisions on the step at which an undo failed. For an undo step, the decision says that an operator has undone the effect.
 * For an effect with an unknown outcome, the decision is that the undo ignores the effect. For a step without a record, such as a read, the
 * decision is the step's output. For any other step, the result contains the reason for a refusal.
 */
export async function passingBy(
  env: EngineEnv,
  instance: Instance,
  recorded: readonly Effect[],
  { step, item, output }: { step: string; item: string; output?: unknown },
): Promise<Passing | { readonly refused: string }> {
  const { id, undo_action, error } = instance;
  const label = labelOf(step, item);
  if (label !== error?.step) {
    return {
      refused: `The undo did not fail at "${label}". It failed at: ${error?.step || "code between steps (fix it with a deployment)"}.`,
    };
  }
  const last = newestOf(recorded, step, item);
  const key = { instanceId: id, step, item, generation: last?.generation ?? 1 };
  if (step.startsWith(UNDO_PREFIX)) {
    // An entry that an earlier undo completed belongs to the earlier undo.
    const isOver = last?.state === "done" && last.error === null;
    const settled = isOver ? null : whyAnswered(last, label);
    if (settled !== null) return { refused: settled };
    const about = newestOf(recorded, step.slice(UNDO_PREFIX.length), item, "done");
    if (about === undefined) {
      return { refused: `"${label}" has no recorded effect to undo. For an item of a map, send its key as "item".` };
    }
    const own = { ...key, generation: key.generation + (isOver ? 1 : 0) };
    const write: Passing["write"] = (given, actionId) => skipEntry(own, given, actionId, { ...about, instanceId: id });
    return { about, follows: takenBackByHand(labelOf(about.step, item)), takesOutput: false, write };
  }
  const settled = whyAnswered(last, label);
  if (settled !== null) return { refused: settled };
  if (last?.state === "claimed" && DOUBTED.has(last.class)) {
    return { refused: `"${label}" may have happened: retry the instance. The effect then becomes in_doubt, and you can resolve it.` };
  }
  if ((await query(env.DB, selectAwaited(id, label))).length > 0) {
    return { refused: `"${label}" is a wait, which has no effect to undo: retry the instance.` };
  }
  const about = { step, item };
  const cutOff = await query<{ label: string }>(env.DB, selectCutOff(undo_action));
  const isEffect = last !== undefined || cutOff.some((one) => one.label === label) || (await unrecorded(env, instance)).has(label);
  // A step that was cut off without a record may be a read. If the operator sends an output, the step counts as a read.
  if (last?.state === "claimed" || (isEffect && output === undefined)) {
    return { about, follows: leftAlone(label), takesOutput: false, write: (_, actionId) => leaveAlone(key, actionId) };
  }
  return { about, follows: ANSWERED, takesOutput: true, write: (given, actionId) => skipEntry(key, given, actionId) };
}

/**
 * Finds the newest generation of a step. The recorded effects of an undo have a different order, so the last generation in this order may
 * be older than others.
 */
function newestOf(recorded: readonly Effect[], step: string, item: string, state?: Effect["state"]): Effect | undefined {
  return recorded
    .filter((one) => one.step === step && one.item === item && (state === undefined || one.state === state))
    .toSorted((a, b) => a.generation - b.generation)
    .at(-1);
}

const takenBackByHand = (label: string) =>
  `The record states that an operator has undone "${label}", with its undo rows and messages (a commit has none). The undo continues with the other effects. A later retry of the instance repeats "${label}", as every undone effect.`;

const leftAlone = (label: string) =>
  `The undo ignores "${label}": if it happened, it remains until an operator undoes it. The undo continues with the other effects. A later retry of the instance tries "${label}" again under the same key; with a lookup, the upstream is asked first.`;

const ANSWERED = "The given output replaces the output of the step, also in later runs, and the step is not undone. The undo continues.";

/** The reason for a refusal to skip a step that has an outcome or is in doubt; null for other steps. */
export function whyAnswered(entry: Effect | undefined, label: string): string | null {
  if (entry?.state === "done" && entry.error !== null && entry.output === null) {
    return `"${label}" happened, but its output could not be stored: confirm its output (POST /v1/effects/${entry.key}/confirm), then retry.`;
  }
  if (entry?.state === "done" && entry.skipped) {
    return `"${label}" is skipped already: if the given output is wrong, confirm another (POST /v1/effects/${entry.key}/confirm), then retry.`;
  }
  if (entry?.state === "done" || entry?.state === "confirmed") return `"${label}" has not failed: its outcome is recorded.`;
  if (entry?.state === "in_doubt" && entry.answered !== null) {
    return `"${label}" happened, but the rows that it records were refused: deploy code with valid rows, then confirm it (POST /v1/effects/${entry.key}/confirm).`;
  }
  if (entry?.state === "in_doubt")
    return `The outcome of "${label}" is unknown: resolve it first (POST /v1/effects/${entry.key}/confirm, or reject).`;
  return null;
}
