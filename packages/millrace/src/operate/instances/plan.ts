import type { EngineEnv } from "../../contract/bindings.ts";
import { codeLabelOf, labelOf } from "../../contract/step-names.ts";
import { type Effect, effectsAndFree } from "../../inspect/effects.ts";
import { type StepRecord, wholeHistoryOf } from "../../inspect/history.ts";
import type { Instance } from "../../inspect/instances.ts";
import { isResumeEvent } from "../../signals/held.ts";
import type { Operator } from "../../store/actions.ts";
import { UNDER_WAY } from "../../store/instances/status.ts";
import type { SetBack } from "./set-back.ts";

/**
 * The consequence of an action for one effect. `kept`: the effect happened and remains · `runs`: the effect is executed, or tried again ·
 * `caught`: the effect failed, the code continued without the effect, and the failure is reported again · `skipped`: an operator skips the
 * effect · `held`: the effect's next attempt waits for the resume · `under_way`: an attempt is running, or the answer of an attempt was
 * lost, so the outcome is recorded first · `undone`: the effect is undone, now or earlier · `stays`: the effect has no undo · `asked`: the
 * effect's outcome was not recorded, so the upstream is asked first · `repeated`: the effect may have happened, so the effect is executed
 * once more under its key, then undone · `nothing`: the effect did not happen · `in_doubt`: an operator must resolve the effect's outcome ·
 * `unknown`: the effect may have happened, and has no record · `needs_output`: the effect happened, and an operator must supply its output.
 */
export const PLAN_VERDICTS = [
  "kept",
  "runs",
  "caught",
  "skipped",
  "held",
  "under_way",
  "undone",
  "stays",
  "asked",
  "repeated",
  "nothing",
  "in_doubt",
  "unknown",
  "needs_output",
] as const;

export type PlanVerdict = (typeof PLAN_VERDICTS)[number];

/** Result of a dry run of an act on an instance. */
export interface ActionPlan {
  /** The reason for a refusal; null if the act would be accepted. */
  refused: string | null;
  /** The step from which the platform would restart the run. Null for a restart from the beginning, and for an action without a restart. */
  from: string | null;
  /** The consequences, as a sentence. */
  follows: string;
  /**
   * A sentence about an output that an operator gave and the act keeps. The sentence states how to replace the output. Null without such an
   * output.
   */
  note: string | null;
  effects: { step: string; item: string; verdict: PlanVerdict }[];
}

/** The verdicts of a dry run on recorded effects, in their order, and on steps that are open on the platform. */
export interface Verdicts {
  readonly recorded: (effect: Effect) => PlanVerdict | undefined;
  readonly unrecorded: (state: OpenState, reads: boolean) => PlanVerdict | undefined;
  /** Verdicts on effects that failed without a record, by step label. */
  readonly failed: ReadonlyMap<string, PlanVerdict>;
}

/**
 * `running`: an attempt is running · `retrying`: an attempt has failed, and another attempt follows · `held`: a pause defers the step's
 * first attempt.
 */
type OpenState = "running" | "retrying" | "held";

export async function planEffects(
  env: EngineEnv,
  by: Operator,
  instance: Instance,
  { recorded, unrecorded, failed }: Verdicts,
): Promise<ActionPlan["effects"]> {
  const effects = (await effectsAndFree(env, by, instance.id)).filter(({ undo, state }) => undo !== "undo_step" && state !== "superseded");
  const { steps } = UNDER_WAY.has(instance.status) ? await wholeHistoryOf(env, { ...instance, undo: null }) : { steps: [] };
  const known = new Set(effects.map(({ step, item }) => labelOf(step, item)));
  const underWay = openIn(steps);
  const reads = new Set(steps.filter((step) => step.reads).map(codeLabelOf));
  const open = [...underWay].flatMap(([label, state]) => {
    const verdict = known.has(label) ? undefined : unrecorded(state, reads.has(label));
    return verdict ? [{ step: label, item: "", verdict }] : [];
  });
  const listed = effects.flatMap((effect) => {
    const verdict = recorded(effect);
    return verdict ? [{ step: effect.step, item: effect.item, verdict }] : [];
  });
  return [...listed, ...notListed(failed, new Set([...known, ...underWay.keys()])), ...open];
}

export function notListed<Verdict>(failed: ReadonlyMap<string, Verdict>, listed: ReadonlySet<string>) {
  return [...failed].flatMap(([step, verdict]) => (listed.has(step) ? [] : [{ step, item: "", verdict }]));
}

/** Appended to `follows` if the database was restored to a time before the run. */
export const SET_BACK =
  " The database was restored to a time before some steps of the run (`unknown` here): these steps are repeated, from the beginning of the code. A lookup effect asks the upstream first, a once effect becomes in_doubt.";

/** Adds to the effects of a plan the steps whose records are missing because the database was restored to an earlier time. */
export function withLost<Verdict extends string>(
  effects: readonly { step: string; item: string; verdict: Verdict }[],
  { lost }: SetBack,
): { step: string; item: string; verdict: Verdict | "unknown" }[] {
  const isLost = new Set(lost);
  const others = effects.filter(({ step, item }) => !isLost.has(labelOf(step, item)));
  return [...others, ...lost.map((step) => ({ step, item: "", verdict: "unknown" as const }))];
}

/** Open steps on the platform by label, including the steps that a pause defers (the platform shows a deferred step as complete). */
function openIn(steps: readonly StepRecord[]): ReadonlyMap<string, OpenState> {
  const open = new Map<string, OpenState>();
  const failed = new Set<string>();
  for (const step of steps) {
    const label = codeLabelOf(step);
    if (step.attempts.some(({ error }) => error !== null)) failed.add(label);
    if (step.type === "do" && (step.state === "running" || step.state === "retrying")) open.set(label, step.state);
    if (step.type === "waitForEvent" && step.state === "waiting" && isResumeEvent(step.eventType ?? "")) {
      open.set(label, failed.has(label) ? "retrying" : "held");
    }
  }
  return open;
}
