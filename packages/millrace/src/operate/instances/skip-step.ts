import * as z from "zod";
import type { EngineEnv } from "../../contract/bindings.ts";
import { digest, type EntryKey } from "../../contract/ids.ts";
import { INTAKE_LIMITS } from "../../contract/limits.ts";
import type { Statement } from "../../contract/sql.ts";
import { CHILD_PREFIX, codeLabelOf, labelOf, UNDO_PREFIX } from "../../contract/step-names.ts";
import { type PackedOutput, packOutput } from "../../guard/output.ts";
import { type Effect, effectsAndFree } from "../../inspect/effects.ts";
import { wholeHistoryOf } from "../../inspect/history.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import { selectCutOff } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { DOUBTED } from "../../store/inbox/classes.ts";
import { leaveAlone, skipEntry } from "../../store/inbox/outcome.ts";
import { GOING_ON } from "../../store/instances/status.ts";
import { selectAwaited } from "../../store/waits.ts";
import { invalid } from "../act.ts";
import { instanceAct } from "./act.ts";
import { pastOf } from "./past.ts";
import type { ActionPlan } from "./plan.ts";
import { nextRun, planRun, readRun, waitForEnd } from "./retry.ts";
import { undoEffects } from "./undo.ts";

/** Errors: `invalid_payload` without a required output; `output_too_large` above 4 MiB. */
export const skip = instanceAct({
  verb: "skip_step",
  path: "skip",
  operationId: "skipStep",
  summary: "Skip the failed step of an instance",
  final: "The output replaces the output of the step. The step does not run again, and an undo does not revert it.",
  description:
    "Records the given output with its rows and messages (none for a commit), and the run continues after the step. If the output does not match the schema of the step, the run fails again, and its error names the reason. An undo does not revert a skipped step. After a failed undo, the undo continues after the skipped step. For `undo …` you confirm that the effect is undone, which is recorded with its rows and messages. If the undo cannot determine the outcome of an effect, you confirm that the undo ignores the effect. Neither needs an output.",
  accepted: "The instance continues after the step",
  body: {
    step: z.string().min(1).max(256).meta({ description: "The failed step, by its name in the code." }),
    item: z
      .string()
      .max(256)
      .default("")
      .meta({ description: "Distinguishes parallel calls of one step; empty for a step that runs once." }),
    output: z.unknown().optional().meta({
      description:
        "The output of the step for the following code; null if it has none. Required, except for an effect that an undo could not undo or check.",
    }),
  },
  problems: ["output_too_large"],
  maxBytes: INTAKE_LIMITS.maxBytes,
  async read({ env, by, instance, given: { step, item = "", output } }) {
    const recorded = await effectsAndFree(env, by, instance.id);
    const last = newestOf(recorded, step, item);
    const key = { instanceId: instance.id, step, item, generation: last?.generation ?? 1 };
    const named: Named = { step, item, output, label: labelOf(step, item), last, key };
    const decide = instance.undo === "open" ? inUndo : inRun;
    const notFailed = whyNotFailed(instance);
    const decision = notFailed === null ? await decide(env, instance, named, recorded) : { refused: notFailed };
    return { recorded, decision };
  },
  refused({ instance, given }, { decision }) {
    if ("refused" in decision) return decision.refused;
    return decision.takesOutput && given.output === undefined ? `The output ${IS_MISSING}.` : whyNotFailed(instance);
  },
  async plan(call, { recorded, decision }) {
    const { env, by, instance, given } = call;
    const isUndoing = instance.undo === "open";
    const others: ActionPlan["effects"] = isUndoing
      ? await undoEffects(env, by, instance)
      : await planRun(call, { recorded, cleared: [instance.error?.step] });
    const from = labelOf(given.step, given.item ?? "");
    if ("refused" in decision) return { from, consequence: `The ${isUndoing ? "undo" : "run"} continues after the step.`, effects: others };
    const { about, consequence } = decision;
    const skipped = { step: about.step, item: about.item, verdict: "skipped" as const };
    const isAbout = ({ step, item }: typeof about) => step === about.step && item === about.item;
    const effects = others.map((one) => (isAbout(one) ? skipped : one));
    return { from, consequence, effects: effects.includes(skipped) ? effects : isUndoing ? [skipped, ...effects] : [...effects, skipped] };
  },
  async change(call, { decision }) {
    const { env, by, instance, actionId, given } = call;
    const { step, item = "", output } = given;
    if ("refused" in decision) return { change: null, detail: { step, item }, to: "running" };
    if (output === undefined && decision.takesOutput) throw invalid("output", IS_MISSING);
    const path = () => `${by.tenantId}/${instance.id}/${digest("skipped", crypto.randomUUID())}`;
    const packed = await packOutput(env.PAYLOADS, path, output);
    const run = await readRun(call, { from: labelOf(step, item), force: true });
    const { detail, ...next } = await nextRun(call, run, decision.write(packed, actionId));
    return { ...next, detail: { step, item, ...detail }, window: "skip committed, not applied" };
  },
});

type Decision = Skip | { readonly refused: string };

interface Skip {
  /** The effect or read that the run or undo ignores after the skip. */
  readonly about: { readonly step: string; readonly item: string };
  readonly consequence: string;
  /** True if the operator must give an output that replaces the step's output. */
  readonly takesOutput: boolean;
  /** The write that records the operator's decision, after the action's row. */
  readonly write: (given: PackedOutput, actionId: string) => Statement;
}

/** The step that the operator names. `last` is its newest entry, `key` the key of the entry that a skip writes. */
interface Named {
  readonly step: string;
  readonly item: string;
  readonly output: unknown;
  readonly label: string;
  readonly last: Effect | undefined;
  readonly key: EntryKey;
}

const FOLLOWS =
  "The given output is recorded as an operator's, with the step's rows and messages (a commit has none). The run continues after the step, and an undo ignores the step. Effects of its failed attempts remain.";

const IS_MISSING = "is missing: give the output that the later code receives; null for a step without output";

async function inRun(env: EngineEnv, instance: Instance, { step, item, label, last, key }: Named): Promise<Decision> {
  const { id, error } = instance;
  const settled = whyAnswered(last, label);
  if (settled !== null) return { refused: settled };
  if ((await query(env.DB, selectAwaited(id, label))).length > 0) {
    return {
      refused: `"${label}" is a wait, which cannot be skipped: retry its child and the instance, or retry the instance, then send its event or answer its question.`,
    };
  }
  if (label !== error?.step && label !== error?.behind) {
    // The platform's step has the name of the code's step, and the record of the child's start has another name.
    if (error?.step === `${CHILD_PREFIX}${label}`) {
      return { refused: `The start of the child failed: skip "${CHILD_PREFIX}${step}".` };
    }
    const { steps } = await wholeHistoryOf(env, instance);
    const failed = steps.filter(({ type, state }) => type === "do" && state === "errored").map(codeLabelOf);
    const names = [...new Set([error?.step, ...failed])].filter(Boolean).join(", ") || "code between steps";
    if (!failed.includes(label)) return { refused: `The instance did not fail at "${label}". It failed at: ${names}.` };
  }
  return { about: { step, item }, consequence: FOLLOWS, takesOutput: true, write: (given, actionId) => skipEntry(key, given, actionId) };
}

function whyNotFailed({ id, status }: Instance): string | null {
  if (status === "errored") return null;
  const wait = GOING_ON.has(status) ? ` It continues automatically: ${waitForEnd(id)}.` : "";
  return `The instance is ${status}: only the step that an errored instance failed at can be skipped.${wait}`;
}

/**
 * The possible decisions on the step at which an undo failed. For an undo step, the decision says that an operator has undone the effect.
 * For an effect with an unknown outcome, the decision is that the undo ignores the effect. For a step without a record, such as a read, the
 * decision is the step's output. For any other step, the result contains the reason for a refusal.
 */
async function inUndo(env: EngineEnv, instance: Instance, named: Named, recorded: readonly Effect[]): Promise<Decision> {
  const { id, undo_action, error } = instance;
  const { step, item, output, label, last, key } = named;
  if (label !== error?.step) {
    return {
      refused: `The undo did not fail at "${label}". It failed at: ${error?.step || "code between steps (fix it with a deployment)"}.`,
    };
  }
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
    const write: Skip["write"] = (given, actionId) => skipEntry(own, given, actionId, { ...about, instanceId: id });
    return { about, consequence: takenBackByHand(labelOf(about.step, item)), takesOutput: false, write };
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
  const isEffect = last !== undefined || cutOff.some((one) => one.label === label) || (await pastOf(env, instance)).unrecorded.has(label);
  // A step that was cut off without a record may be a read. If the operator sends an output, the step counts as a read.
  if (last?.state === "claimed" || (isEffect && output === undefined)) {
    return { about, consequence: leftAlone(label), takesOutput: false, write: (_, actionId) => leaveAlone(key, actionId) };
  }
  return { about, consequence: ANSWERED, takesOutput: true, write: (given, actionId) => skipEntry(key, given, actionId) };
}

/** The recorded effects of an undo have a different order, so the last may be older than others. */
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

/** The reason for a refusal to skip a step that has an outcome or is in doubt. */
function whyAnswered(entry: Effect | undefined, label: string): string | null {
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
