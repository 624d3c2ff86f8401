import * as z from "zod";
import type { EngineEnv } from "../../contract/bindings.ts";
import { PLAN_VERDICTS, type PlanVerdict } from "../../contract/plan-verdicts.ts";
import { codeLabelOf, labelOf } from "../../contract/step-names.ts";
import { type Effect, effectsAndFree } from "../../inspect/effects.ts";
import { type StepRecord, wholeHistoryOf } from "../../inspect/history.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import { isResumeEvent } from "../../signals/approval.ts";
import type { Operator } from "../../store/actions.ts";
import { UNDER_WAY } from "../../store/instances/status.ts";
import type { SetBack } from "./past.ts";

const MEANINGS = Object.entries(PLAN_VERDICTS).map(([verdict, means]) => `\`${verdict}\`: ${means}.`);

/** Dry run of an act on an instance, a workflow or a queue. */
export const ActionPlan = z
  .object({
    refused: z.string().nullable().meta({ description: "Why the action would be refused now; null if it would be accepted." }),
    from: z.string().nullable().meta({ description: "The step at which the run would start; null for no run, and for the beginning." }),
    consequence: z.string().meta({ description: "The consequence, in a sentence." }),
    note: z.string().nullable().meta({
      description: "A note on the confirmed output that a retry keeps, with the correction if it is wrong; null without one.",
    }),
    effects: z.array(
      z.object({
        step: z.string(),
        item: z.string(),
        verdict: z.enum(Object.keys(PLAN_VERDICTS) as PlanVerdict[]).meta({ description: MEANINGS.join(" ") }),
      }),
    ),
  })
  .meta({ id: "ActionPlan" });
export type ActionPlan = z.infer<typeof ActionPlan>;

/** The verdicts of a dry run on recorded effects, in their order, and on steps that are open on the platform. */
interface Verdicts {
  /** The recorded effects. Default: the effects that are recorded now. */
  readonly effects?: readonly Effect[] | undefined;
  readonly recorded: (effect: Effect) => PlanVerdict;
  /** Default: the platform is not asked for open steps. */
  readonly unrecorded?: ((state: OpenState, reads: boolean) => PlanVerdict | undefined) | undefined;
  /** Verdicts on effects that failed without a record, by step label. */
  readonly failed: ReadonlyMap<string, PlanVerdict>;
}

/** `retrying`: an attempt has failed, and another follows · `held`: a pause defers the step's first attempt. */
type OpenState = "running" | "retrying" | "held";

export async function planEffects(
  env: EngineEnv,
  by: Operator,
  instance: Instance,
  { effects: given, recorded, unrecorded, failed }: Verdicts,
): Promise<ActionPlan["effects"]> {
  const all = given ?? (await effectsAndFree(env, by, instance.id));
  const effects = all.filter(({ undo, state }) => undo !== "undo_step" && state !== "superseded");
  const isOpen = unrecorded !== undefined && UNDER_WAY.has(instance.status);
  const { steps } = isOpen ? await wholeHistoryOf(env, { ...instance, undo_action: null }) : { steps: [] };
  const known = new Set(effects.map(({ step, item }) => labelOf(step, item)));
  const underWay = openIn(steps);
  const reads = new Set(steps.filter((step) => step.reads).map(codeLabelOf));
  const open = [...underWay].flatMap(([label, state]) => {
    const verdict = known.has(label) ? undefined : unrecorded?.(state, reads.has(label));
    return verdict ? [{ step: label, item: "", verdict }] : [];
  });
  const listed = effects.map((effect) => ({ step: effect.step, item: effect.item, verdict: recorded(effect) }));
  const others = [...failed].filter(([label]) => !known.has(label) && !underWay.has(label));
  return [...listed, ...others.map(([step, verdict]) => ({ step, item: "", verdict })), ...open];
}

const SET_BACK =
  " The database was restored to a time before some steps of the run (`unknown` here): these steps are repeated, from the beginning of the code. A lookup effect asks the upstream first, a once effect becomes in_doubt.";

/** Adds to a plan the steps whose records are missing because the database was restored to a time before the run. */
export function withLost<Plan extends Pick<ActionPlan, "consequence" | "effects">>(plan: Plan, behind: SetBack | undefined): Plan {
  if (behind === undefined) return plan;
  const isLost = new Set(behind.lost);
  const others = plan.effects.filter(({ step, item }) => !isLost.has(labelOf(step, item)));
  const lost = behind.lost.map((step) => ({ step, item: "", verdict: "unknown" as const }));
  return { ...plan, from: null, consequence: plan.consequence + SET_BACK, effects: [...others, ...lost] };
}

/** Open steps on the platform by label, including the steps that a pause defers (the platform shows a deferred step as complete). */
function openIn(steps: readonly StepRecord[]): ReadonlyMap<string, OpenState> {
  const open = new Map<string, OpenState>();
  const failed = new Set<string>();
  for (const step of steps) {
    const label = codeLabelOf(step);
    if (step.attempts.some(({ error }) => error !== null)) failed.add(label);
    if (step.type === "do" && (step.state === "running" || step.state === "retrying")) open.set(label, step.state);
    if (step.type === "waitForEvent" && step.state === "waiting" && isResumeEvent(step.event_type ?? "")) {
      open.set(label, failed.has(label) ? "retrying" : "held");
    }
  }
  return open;
}
