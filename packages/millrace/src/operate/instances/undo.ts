import type { EngineEnv } from "../../contract/bindings.ts";
import type { PlanVerdict } from "../../contract/plan-verdicts.ts";
import { sql } from "../../contract/sql.ts";
import { labelOf } from "../../contract/step-names.ts";
import { shortened } from "../../contract/text.ts";
import { type Effect, effectsAndFree, effectsOf } from "../../inspect/effects.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import type { Unrecorded } from "../../replay/failure.ts";
import { type Operator, selectCutOff, selectCutOffSoFar } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { DOUBTED } from "../../store/inbox/classes.ts";
import { beginUndo, hasToTakeBack } from "../../store/instances/run.ts";
import { ENDED } from "../../store/instances/status.ts";
import { instanceAct } from "./act.ts";
import { failedBefore, pastOf, storedForUndo, whyInDoubt } from "./past.ts";
import type { ActionPlan } from "./plan.ts";

export const undo = instanceAct({
  verb: "undo",
  path: "undo",
  summary: "Undo an instance",
  final: "A started undo cannot be stopped.",
  description:
    "Undoes the recorded effects that have an undo handler, in reverse order, each once. Then the instance is terminated. A retry afterwards runs them again. A dry run lists the effects in the order of the undo.",
  accepted: "The undo was accepted",
  async refused({ env, by, instance }) {
    const { id, status, undo } = instance;
    if (undo !== null && status === "terminated") return "The instance is undone already.";
    if (undo !== null && status === "errored")
      return "The undo of the instance has failed: retry the instance to continue the undo, or skip the step that failed.";
    if (!ENDED.has(status)) return `The instance is ${status}: only an instance that has ended can be undone.`;
    const doubt = await whyInDoubt(env, id);
    if (doubt !== null) return doubt;
    const [something] = await query(
      env.DB,
      sql`SELECT 1 FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId} AND ${hasToTakeBack(by.tenantId, id)}`,
    );
    if (something) return null;
    const effects = await undoEffects(env, by, instance);
    const stays = effects.some(({ verdict }) => verdict === "stays") ? HAD_NO_UNDO : "";
    return `The instance has no recorded effect that can be undone.${stays}${unknownAmong(effects)}`;
  },
  plan: async ({ env, by, instance }) => ({ consequence: FOLLOWS, effects: await undoEffects(env, by, instance) }),
  async change({ env, instance, actionId, next }) {
    const { status } = instance;
    const { run } = next;
    const left = storedForUndo(await pastOf(env, instance), instance, run);
    return {
      change: beginUndo({ ...next, left }, actionId),
      detail: { run, ...(status === "terminated" && instance.undo === null && { stopped: true }), ...failedBefore(instance) },
      before: { status, undo: instance.undo },
      after: { status: "running", undo: "open" },
      window: "undo committed, not applied",
    };
  },
});

const FOLLOWS =
  "Effects with an undo handler are undone in reverse order. Then the instance is terminated. A retry afterwards repeats them.";

export type UndoVerdict = Extract<PlanVerdict, "undone" | "stays" | "asked" | "repeated" | "nothing" | "in_doubt" | "unknown">;

/** The verdict for each effect, in undo order. After a failed undo, the result contains only effects that are not undone yet. */
export async function undoEffects(
  env: EngineEnv,
  by: Operator,
  instance: Instance,
): Promise<{ step: string; item: string; verdict: UndoVerdict }[]> {
  const { id, undo_action: undo } = instance;
  const withFree = await effectsAndFree(env, by, id);
  const newest = new Map(withFree.map((effect) => [labelOf(effect.step, effect.item), effect]));
  // An undo adds a new generation after each undone effect. No request was sent for the new generation.
  const recorded = undo === null ? withFree : await effectsOf(env, by, id);
  // Steps without an inbox entry: a step that failed before its first record, a step that never received an answer, and a step that an
  // operator's action cut off.
  const open = new Map<string, Unrecorded>();
  for (const [label, known] of (await pastOf(env, instance)).unrecorded) {
    const last = newest.get(label);
    if (last !== undefined && (last.state !== "failed" || (undo !== null && last.generation > 1))) continue;
    open.set(label, undo !== null && known === "undoable" ? sinceUndo(instance, last) : known);
  }
  const cutOff = await query<{ label: string; at: number }>(
    env.DB,
    undo === null ? selectCutOffSoFar(by.tenantId, id) : selectCutOff(undo),
  );
  for (const { label, at } of cutOff) {
    const last = newest.get(label);
    if (last === undefined || (last.state === "failed" && last.updated_at < at)) open.set(label, "unknown");
  }
  const plan = recorded
    .filter((effect) => effect.undo !== "undo_step" && !effect.is_undone)
    .map((effect) => ({ label: labelOf(effect.step, effect.item), effect }))
    .toReversed();
  const verdicts = plan.map(({ label, effect }) => {
    // For an effect of such a class only outcomes are recorded, so the attempts of the effect's next generation are unknown.
    const known = effect.state === "failed" && UNCLAIMED.has(effect.class) ? open.get(label) : undefined;
    return { step: effect.step, item: effect.item, verdict: known ? VERDICT_ON[known] : undoVerdictOn(effect) };
  });
  for (const { label } of plan) open.delete(label);
  return [...[...open].map(([step, known]) => ({ step, item: "", verdict: VERDICT_ON[known] })), ...verdicts];
}

export const VERDICT_ON = { refused: "nothing", unknown: "unknown", undoable: "repeated" } as const;

/** Since the undo, an operator has skipped the effect, or the upstream has refused it. */
function sinceUndo(instance: Instance, last: Effect | undefined): Unrecorded {
  if (last !== undefined) return "unknown";
  return instance.undo === "done" ? "refused" : "undoable";
}

const UNCLAIMED: ReadonlySet<string> = new Set(["keyed", "natural"]);

export function undoVerdictOn({ state, class: effectClass, undo }: Effect): UndoVerdict {
  if (state === "superseded") return "unknown";
  if (state === "in_doubt" || (state === "claimed" && DOUBTED.has(effectClass))) return "in_doubt";
  if (state === "failed") return "nothing";
  if (undo === "permanent") return "stays";
  return state === "claimed" ? "asked" : "undone";
}

const HAD_NO_UNDO =
  " Its effects had no undo handlers when they ran. A handler that was deployed later applies to later effects only: undo these effects by hand.";

function unknownAmong(effects: ActionPlan["effects"]): string {
  const unknown = effects.filter(({ verdict }) => verdict === "unknown");
  if (unknown.length === 0) return "";
  const labels = shortened(unknown.map(({ step, item }) => `"${labelOf(step, item)}"`).join(", "), 500);
  return ` These effects have no record and may have happened: ${labels}. Check the upstream and undo them there by hand.`;
}
