import type { EngineEnv } from "../../contract/bindings.ts";
import { MillraceError } from "../../contract/errors.ts";
import { digest } from "../../contract/ids.ts";
import { codeLabelOf, labelOf } from "../../contract/step-names.ts";
import { packOutput } from "../../guard/output.ts";
import { type Effect, effectsAndFree } from "../../inspect/effects.ts";
import { wholeHistoryOf } from "../../inspect/history.ts";
import { getInstance, type Instance } from "../../inspect/instances.ts";
import type { Operator } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { skipEntry } from "../../store/inbox/outcome.ts";
import { GOING_ON } from "../../store/instances/status.ts";
import { selectAwaited } from "../../store/waits.ts";
import { caughtWithoutRecord, stillCaught } from "./left.ts";
import { type ActionPlan, notListed } from "./plan.ts";
import { retryAs, retryVerdictOn, waitForEnd } from "./retry.ts";
import { isBeingUndone } from "./retry-beginning.ts";
import { passingBy } from "./skip-in-undo.ts";
import { whyAnswered } from "./skippable.ts";
import { undoEffects } from "./undo.ts";

export interface SkippedStep {
  /** Its name in the code. */
  readonly step: string;
  /** Distinguishes parallel calls of one step. Default "", for a step that runs once. */
  readonly item?: string | undefined;
}

/** Dry run: the consequences of skipping a step. Errors: `instance_not_found`. */
export async function planSkip(
  env: EngineEnv,
  by: Operator,
  instanceId: string,
  { step, item = "", output }: SkippedStep & { output?: unknown },
): Promise<ActionPlan> {
  const instance = await getInstance(env, by, instanceId);
  const recorded = await effectsAndFree(env, by, instanceId);
  if (goesOnUndoing(instance)) return planInUndo(env, by, instance, recorded, { step, item, output });
  const isIt = (one: { step: string; item: string }) => one.step === step && one.item === item;
  const caught = await stillCaught(env, instanceId, [instance.error?.step]);
  const others = recorded
    .filter((effect) => effect.state !== "superseded" && effect.undo !== "undo_step" && !isIt(effect))
    .map((effect) => ({ step: effect.step, item: effect.item, verdict: retryVerdictOn(effect, caught) }));
  const refused = await whyRefused(env, instance, recorded, { step, item });
  const listed = new Set([...recorded.map((effect) => labelOf(effect.step, effect.item)), labelOf(step, item)]);
  const failures = notListed(await caughtWithoutRecord(env, instance, caught), listed);
  return { refused, from: labelOf(step, item), follows: FOLLOWS, effects: [...others, ...failures, { step, item, verdict: "skipped" }] };
}

const FOLLOWS =
  "The given output is recorded as an operator's, with the step's rows and messages (a commit has none). The run continues after the step, and an undo ignores the step. Effects of its failed attempts remain.";

async function planInUndo(
  env: EngineEnv,
  by: Operator,
  instance: Instance,
  recorded: readonly Effect[],
  which: Required<SkippedStep> & { output: unknown },
): Promise<ActionPlan> {
  const rest = await undoEffects(env, by, instance);
  const from = labelOf(which.step, which.item);
  const passing = await passingBy(env, instance, recorded, which);
  if ("refused" in passing) return { refused: passing.refused, from, follows: "The undo continues after the step.", effects: rest };
  const { about, follows } = passing;
  const isAbout = (one: typeof about) => one.step === about.step && one.item === about.item;
  const effects: ActionPlan["effects"] = rest.map((one) => (isAbout(one) ? { ...one, verdict: "skipped" as const } : one));
  return { refused: null, from, follows, effects: effects.some(isAbout) ? effects : [{ ...about, verdict: "skipped" }, ...effects] };
}

const goesOnUndoing = (instance: Instance) => instance.status === "errored" && isBeingUndone(instance);

/**
 * Skips the step at which an instance failed: the run continues with the given output instead. The output is validated against the step's
 * `output` schema, if there is one; a mismatch fails the run again, with the reason. If its undo has failed, the undo continues; an effect
 * that it could not undo or ask about needs no output. Errors: `instance_not_found`; `invalid_payload` without a required output;
 * `output_too_large` above 4 MiB; `invalid_transition` (audited as no change) for an instance that has not failed, and for another step.
 */
export async function skipStep(
  env: EngineEnv,
  by: Operator,
  instanceId: string,
  { step, item = "", output, reason }: SkippedStep & { output?: unknown; reason: string },
): Promise<{ actionId: string }> {
  const instance = await getInstance(env, by, instanceId);
  const recorded = await effectsAndFree(env, by, instanceId);
  const inUndo = goesOnUndoing(instance) ? await passingBy(env, instance, recorded, { step, item, output }) : undefined;
  const passing = inUndo && !("refused" in inUndo) ? inUndo : undefined;
  const refused = inUndo ? ("refused" in inUndo ? inUndo.refused : null) : await whyRefused(env, instance, recorded, { step, item });
  if (refused === null && output === undefined && (passing?.takesOutput ?? true)) throw outputMissing();
  const path = () => `${by.tenantId}/${instanceId}/${digest("skipped", crypto.randomUUID())}`;
  const packed = await packOutput(env.PAYLOADS, path, output);
  const newest = recorded.findLast((effect) => effect.step === step && effect.item === item);
  const key = { instanceId, step, item, generation: newest?.generation ?? 1 };
  const { actionId } = await retryAs(
    env,
    by,
    instanceId,
    { from: refused === null ? labelOf(step, item) : undefined, anyway: true, reason },
    {
      verb: "skip_step",
      window: "skip promised, not applied",
      detail: { step, item },
      also: (id) => passing?.write(packed, id) ?? skipEntry(key, packed, id),
      refused,
      read: instance,
    },
  );
  return { actionId };
}

function outputMissing(): MillraceError {
  const message = "is missing: give the output that the later code receives; null for a step without output";
  return new MillraceError("invalid_payload", `The output ${message}.`, { issues: [{ path: "output", message }] });
}

async function whyRefused(
  env: EngineEnv,
  instance: Instance,
  recorded: readonly Effect[],
  { step, item }: Required<SkippedStep>,
): Promise<string | null> {
  const { status, error } = instance;
  const label = labelOf(step, item);
  if (status !== "errored") {
    const wait = GOING_ON.has(status) ? ` It continues automatically: ${waitForEnd(instance.id)}.` : "";
    return `The instance is ${status}: only the step that an errored instance failed at can be skipped.${wait}`;
  }
  const settled = whyAnswered(
    recorded.findLast((effect) => effect.step === step && effect.item === item),
    label,
  );
  if (settled !== null) return settled;
  if ((await query(env.DB, selectAwaited(instance.id, label))).length > 0) {
    return `"${label}" is a wait, which cannot be skipped: retry the instance, then send its event, or answer its question.`;
  }
  if (label === error?.step || label === error?.behind) return null;
  const { steps } = await wholeHistoryOf(env, instance);
  const failed = steps.filter(({ type, state }) => type === "do" && state === "errored").map(codeLabelOf);
  if (failed.includes(label)) return null;
  return `The instance did not fail at "${label}". It failed at: ${[...new Set([error?.step, ...failed])].filter(Boolean).join(", ") || "code between steps"}.`;
}
