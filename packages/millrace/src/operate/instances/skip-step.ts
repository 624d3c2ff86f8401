import * as z from "zod";
import type { EngineEnv } from "../../contract/bindings.ts";
import { MillraceError } from "../../contract/errors.ts";
import { digest } from "../../contract/ids.ts";
import { INTAKE_LIMITS } from "../../contract/limits.ts";
import { CHILD_PREFIX, codeLabelOf, labelOf } from "../../contract/step-names.ts";
import { packOutput } from "../../guard/output.ts";
import { type Effect, effectsAndFree } from "../../inspect/effects.ts";
import { wholeHistoryOf } from "../../inspect/history.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import { query } from "../../store/d1/retry.ts";
import { skipEntry } from "../../store/inbox/outcome.ts";
import { GOING_ON } from "../../store/instances/status.ts";
import { selectAwaited } from "../../store/waits.ts";
import { instanceAct } from "./act.ts";
import { caughtWithoutRecord, isBeingUndone, stillCaught } from "./left.ts";
import { type ActionPlan, notListed } from "./plan.ts";
import { nextRun, readRun, retryVerdictOn, waitForEnd } from "./retry.ts";
import { type Passing, passingBy, whyAnswered } from "./skip-in-undo.ts";
import { undoEffects } from "./undo.ts";

/**
 * Skips the step at which an instance failed. The run continues with the given output instead of the step's output. The output is validated
 * against the step's `output` schema if the step has this schema. An invalid output fails the run again, with the reason. If the undo of
 * the instance has failed, the undo continues. An effect that the undo could not undo or look up needs no output. Errors: `invalid_payload`
 * without a required output; `output_too_large` above 4 MiB. Refused for an instance that has not failed, and for a step other than the
 * failed step.
 */
export const skip = instanceAct({
  verb: "skip_step",
  path: "skip",
  operationId: "skipStep",
  summary: "Skip the failed step of an instance",
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
  answer: {},
  problems: ["output_too_large"],
  maxBytes: INTAKE_LIMITS.maxBytes,
  async read({ env, by, instance, given: { step, item = "", output } }) {
    const recorded = await effectsAndFree(env, by, instance.id);
    const isUndoing = instance.status === "errored" && isBeingUndone(instance);
    const found = isUndoing ? await passingBy(env, instance, recorded, { step, item, output }) : undefined;
    const refused = found ? ("refused" in found ? found.refused : null) : await whyRefused(env, instance, recorded, { step, item });
    const passing = found && !("refused" in found) ? found : undefined;
    return { recorded, isUndoing, passing, refused };
  },
  refused: ({ instance }, { refused }) => refused ?? whyNotFailed(instance),
  async plan({ env, by, instance, given: { step, item = "" } }, { recorded, isUndoing, passing }) {
    const from = labelOf(step, item);
    if (isUndoing) return { from, ...planInUndo(await undoEffects(env, by, instance), passing) };
    const isIt = (one: { step: string; item: string }) => one.step === step && one.item === item;
    const caught = await stillCaught(env, instance.id, [instance.error?.step]);
    const others = recorded
      .filter((effect) => effect.state !== "superseded" && effect.undo !== "undo_step" && !isIt(effect))
      .map((effect) => ({ step: effect.step, item: effect.item, verdict: retryVerdictOn(effect, caught) }));
    const listed = new Set([...recorded.map((effect) => labelOf(effect.step, effect.item)), from]);
    const failures = notListed(await caughtWithoutRecord(env, instance, caught), listed);
    return { from, follows: FOLLOWS, effects: [...others, ...failures, { step, item, verdict: "skipped" }] };
  },
  async change(call, { recorded, passing, refused }) {
    const { env, by, instance, actionId, given } = call;
    const { step, item = "", output } = given;
    if (refused === null && output === undefined && (passing?.takesOutput ?? true)) throw outputMissing();
    const path = () => `${by.tenantId}/${instance.id}/${digest("skipped", crypto.randomUUID())}`;
    const packed = await packOutput(env.PAYLOADS, path, output);
    const newest = recorded.findLast((effect) => effect.step === step && effect.item === item);
    const key = { instanceId: instance.id, step, item, generation: newest?.generation ?? 1 };
    const run = await readRun(call, { from: refused === null ? labelOf(step, item) : undefined, anyway: true });
    const write = passing?.write(packed, actionId) ?? skipEntry(key, packed, actionId);
    const { detail, ...next } = await nextRun(call, { ...run, again: refused ?? run.again }, write);
    return { ...next, detail: { step, item, ...detail }, window: "skip committed, not applied" };
  },
});

const FOLLOWS =
  "The given output is recorded as an operator's, with the step's rows and messages (a commit has none). The run continues after the step, and an undo ignores the step. Effects of its failed attempts remain.";

function planInUndo(rest: ActionPlan["effects"], passing: Passing | undefined): Pick<ActionPlan, "follows" | "effects"> {
  if (passing === undefined) return { follows: "The undo continues after the step.", effects: rest };
  const { about, follows } = passing;
  const isAbout = (one: typeof about) => one.step === about.step && one.item === about.item;
  const effects: ActionPlan["effects"] = rest.map((one) => (isAbout(one) ? { ...one, verdict: "skipped" as const } : one));
  return { follows, effects: effects.some(isAbout) ? effects : [{ ...about, verdict: "skipped" }, ...effects] };
}

function outputMissing(): MillraceError {
  const message = "is missing: give the output that the later code receives; null for a step without output";
  return new MillraceError("invalid_payload", `The output ${message}.`, { issues: [{ path: "output", message }] });
}

async function whyRefused(
  env: EngineEnv,
  instance: Instance,
  recorded: readonly Effect[],
  { step, item }: { step: string; item: string },
): Promise<string | null> {
  const { error } = instance;
  const label = labelOf(step, item);
  const notFailed = whyNotFailed(instance);
  if (notFailed !== null) return notFailed;
  const settled = whyAnswered(
    recorded.findLast((effect) => effect.step === step && effect.item === item),
    label,
  );
  if (settled !== null) return settled;
  if ((await query(env.DB, selectAwaited(instance.id, label))).length > 0) {
    return `"${label}" is a wait, which cannot be skipped: retry its child and the instance, or retry the instance, then send its event or answer its question.`;
  }
  if (label === error?.step || label === error?.behind) return null;
  // The platform's step has the name of the code's step, and the record of the child's start has another name.
  if (error?.step === `${CHILD_PREFIX}${label}`) return `The start of the child failed: skip "${CHILD_PREFIX}${step}".`;
  const { steps } = await wholeHistoryOf(env, instance);
  const failed = steps.filter(({ type, state }) => type === "do" && state === "errored").map(codeLabelOf);
  if (failed.includes(label)) return null;
  return `The instance did not fail at "${label}". It failed at: ${[...new Set([error?.step, ...failed])].filter(Boolean).join(", ") || "code between steps"}.`;
}

function whyNotFailed({ id, status }: Instance): string | null {
  if (status === "errored") return null;
  const wait = GOING_ON.has(status) ? ` It continues automatically: ${waitForEnd(id)}.` : "";
  return `The instance is ${status}: only the step that an errored instance failed at can be skipped.${wait}`;
}
