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
 * What an action would do with one effect. `kept`: it happened, and stands · `runs`: it is done, or tried again · `caught`: it failed, its
 * code went on without it, and is told so again · `skipped`: it is passed by, by a person's word · `held`: its next attempt waits
 * until the instance is resumed · `under_way`: an attempt is under way, or its answer was lost: what came of it is recorded first ·
 * `undone`: it is taken back, or was before · `stays`: its code has no way to take it back · `asked`: nobody recorded what came of it, so
 * the upstream is asked first · `repeated`: it may have happened: it is done once more, under its key, and then taken back · `nothing`: it
 * did not happen · `in_doubt`: a person has to say whether it happened · `unknown`: it may have happened, and failed without a record or
 * lost its record · `needs_output`: it happened, and its output has to be given.
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

/** What an action on an instance would do: a dry run does nothing else than say so. */
export interface ActionPlan {
  /** Why it would be refused now; null when it would be done. */
  refused: string | null;
  /** The step that the platform would start from; null for an action that starts from none, or from the beginning. */
  from: string | null;
  /** What would follow, in a sentence. */
  follows: string;
  effects: { step: string; item: string; verdict: PlanVerdict }[];
}

/** What a dry run says of an instance's effects: of those on record, in their order, and of steps that the platform has under way. */
export interface Verdicts {
  /** Of an effect on record; undefined leaves it out. */
  readonly recorded: (effect: Effect) => PlanVerdict | undefined;
  /** Of a step that has no record: undefined leaves it out. */
  readonly unrecorded: (state: OpenState, reads: boolean) => PlanVerdict | undefined;
  /** Of effects that failed without a record, by the labels of their steps. */
  readonly failed: ReadonlyMap<string, PlanVerdict>;
}

/** `running`: an attempt is under way · `retrying`: it has failed, and another is to come · `held`: a pause holds back its first. */
type OpenState = "running" | "retrying" | "held";

/** Says effect by effect what an action would do. A step that only reads has no record: while it is under way, it is listed too. */
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

/** Effects that failed without a record, but for those that are listed by their labels already. */
export function notListed<Verdict>(failed: ReadonlyMap<string, Verdict>, listed: ReadonlySet<string>) {
  return [...failed].flatMap(([step, verdict]) => (listed.has(step) ? [] : [{ step, item: "", verdict }]));
}

/** What a restart and a retry do where the database was set back behind the run, behind the sentence of what follows. */
export const SET_BACK =
  " The database was restored to a time before some steps of the run (`unknown` here): these steps are repeated, from the beginning of the code. A lookup effect asks the upstream first, a once effect becomes in_doubt.";

/** The effects of a plan, with the steps whose records such a database has lost. */
export function withLost<Verdict extends string>(
  effects: readonly { step: string; item: string; verdict: Verdict }[],
  { lost }: SetBack,
): { step: string; item: string; verdict: Verdict | "unknown" }[] {
  const isLost = new Set(lost);
  const others = effects.filter(({ step, item }) => !isLost.has(labelOf(step, item)));
  return [...others, ...lost.map((step) => ({ step, item: "", verdict: "unknown" as const }))];
}

/** The steps that the platform has under way, by their names in the code; and those that a pause holds back, which are over for it. */
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
