import type { EngineEnv } from "../../contract/bindings.ts";
import type { PlanVerdict } from "../../contract/plan-verdicts.ts";
import { laneIn } from "../../contract/queue.ts";
import { labelOf } from "../../contract/step-names.ts";
import { effectsOf } from "../../inspect/effects.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import type { Operator } from "../../store/actions.ts";
import { REFUSED, RETRYABLE } from "../../store/instances/status.ts";
import { markClosed } from "../../store/instances/stop.ts";
import { instanceAct } from "./act.ts";
import { failedBefore, messageOfInstance, whyInDoubt } from "./left.ts";
import type { ActionPlan } from "./plan.ts";
import { type UndoVerdict, undoEffects } from "./undo.ts";

/** An instance in doubt without an effect in doubt can be closed too, because no resolution would continue the instance. */
export const close = instanceAct({
  verb: "close",
  path: "close",
  summary: "Close an instance permanently",
  final: "A closed instance cannot be reopened.",
  description:
    "A failed or stopped instance becomes `skipped`. Its effects remain unless they were undone. It cannot be retried or undone afterwards, and its alert ends. Also closes an instance that is `in_doubt` without an effect in doubt.",
  accepted: "It is closed",
  async refused({ env, instance: { id, status } }) {
    if (RETRYABLE.has(status) || status === "in_doubt") return whyInDoubt(env, id);
    if (status === "skipped") return "The instance is skipped already.";
    if (REFUSED.has(status)) return "The instance never started: skip its dead letter, which also skips the instance.";
    return `The instance is ${status}: only an errored or terminated instance can be closed.${status === "complete" ? "" : " Cancel it first."}`;
  },
  async plan({ env, by, instance }) {
    const effects = await standing(env, by, instance);
    const lane = laneIn((await messageOfInstance(env, instance.id)).queue);
    const goesOn = lane && ` If it blocks its lane (${lane} · ${instance.subject}), the next message of the lane starts.`;
    return {
      consequence: `Final: the instance gets the status skipped, and cannot be retried or undone. ${remainsOf(instance)} The record and the reason are kept.${goesOn ?? ""}`,
      effects,
    };
  },
  change({ instance, next }) {
    const { status, run } = instance;
    return {
      change: markClosed({ ...next, run }),
      detail: status === "errored" ? failedBefore(instance) : undefined,
      before: { status, run },
      after: { status: "skipped", run: run + 1 },
      window: "close committed, not applied",
    };
  },
  bulk: {
    from: RETRYABLE.values,
    usual: "errored",
    consequence:
      "Final: a closed instance cannot be retried or undone. Its effects remain, unless they are undone already. Lanes that these instances block continue.",
  },
});

async function standing(env: EngineEnv, by: Operator, instance: Instance): Promise<ActionPlan["effects"]> {
  const found = (await undoEffects(env, by, instance)).toReversed();
  const label = ({ step, item }: (typeof found)[number]) => labelOf(step, item);
  const back = (await effectsOf(env, by, instance.id)).filter(({ is_undone }) => is_undone);
  const undone = new Map(back.map(({ step, item }) => [labelOf(step, item), { step, item, verdict: "undone" } as const]));
  const listed = found.map((one) => {
    const before = undone.get(label(one));
    undone.delete(label(one));
    return before && one.verdict === "nothing" ? before : { ...one, verdict: STANDS[one.verdict] };
  });
  return [...undone.values(), ...listed];
}

const STANDS = {
  ...{ undone: "kept", stays: "kept", asked: "unknown", repeated: "unknown" },
  ...{ nothing: "nothing", in_doubt: "in_doubt", unknown: "unknown" },
} as const satisfies Record<UndoVerdict, PlanVerdict>;

function remainsOf({ undo }: Instance): string {
  if (undo === "done") return "Its effects are undone already.";
  return undo === null ? "Its effects remain." : "Effects that its undo has not undone remain.";
}
