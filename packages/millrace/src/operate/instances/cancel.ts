import type { EngineEnv } from "../../contract/bindings.ts";
import { labelOf } from "../../contract/step-names.ts";
import { getInstance, type Instance } from "../../inspect/instances.ts";
import type { Unrecorded } from "../../pass/failure.ts";
import { type Action, actionIdOf, type Operator } from "../../store/actions.ts";
import { leaveDoubts } from "../../store/inbox/doubts.ts";
import { ENDED, UNDER_WAY } from "../../store/instances/status.ts";
import { beginCancel, markStopped } from "../../store/instances/stop.ts";
import { actAndTell } from "../act.ts";
import { stillCaught, unrecorded } from "./left.ts";
import { type ActionPlan, type PlanVerdict, planEffects } from "./plan.ts";
import { undoVerdictOn, VERDICT_ON } from "./undo.ts";

interface CancelOptions {
  /** False keeps its effects. Default true: they are undone. */
  undo?: boolean | undefined;
}

/** Dry run: the result of a cancel for each effect, the last effect first. Errors: `instance_not_found`. */
export async function planCancel(
  env: EngineEnv,
  by: Operator,
  instanceId: string,
  { undo = true }: CancelOptions = {},
): Promise<ActionPlan> {
  const instance = await getInstance(env, by, instanceId);
  const caught = await stillCaught(env, instanceId);
  const failed = [...(await unrecorded(env, instance))].map(([label, known]) => [label, onFailed(known, undo)] as const);
  const effects = await planEffects(env, by, instance, {
    failed: new Map(failed),
    recorded: (effect): PlanVerdict => {
      if (effect.state === "claimed" && !caught.has(labelOf(effect.step, effect.item))) return "under_way";
      const verdict = undoVerdictOn(effect);
      return undo || (verdict !== "undone" && verdict !== "stays") ? verdict : "kept";
    },
    // Without its answer, the outcome of an effect is unknown. The cancel does not wait for a read.
    unrecorded: (state, reads) => (reads ? undefined : UNRECORDED[state]),
  });
  return { refused: whyRefused(instance), from: null, follows: undo ? TAKEN_BACK : STANDS, effects: effects.toReversed() };
}

const UNRECORDED = { running: "under_way", retrying: "unknown", held: undefined } as const;

/** For an effect that failed without a record. It is repeated only to be undone. */
function onFailed(known: Unrecorded, undo: boolean): PlanVerdict {
  return known === "undoable" && !undo ? "unknown" : VERDICT_ON[known];
}

const TAKEN_BACK =
  "The instance starts no further step. Running attempts are recorded first. An effect with a lost answer is repeated under its key if it can be undone, so that its outcome is known. Then effects with an undo handler are undone in reverse order, and the instance is terminated.";
const STANDS =
  "The instance starts no further step. Running attempts are recorded, then it is terminated. Its effects remain; you can undo them later.";

/**
 * Cancels an instance that has not ended. No further step begins, the current step is recorded, the effects are undone, and the instance
 * becomes terminated. With `undo: false` the effects remain. Errors: `instance_not_found`; `invalid_transition` (audited as no change) if
 * it has ended or is being undone.
 */
export async function cancelInstance(
  env: EngineEnv,
  by: Operator,
  instanceId: string,
  { undo = true, reason }: CancelOptions & { reason: string },
): Promise<{ actionId: string }> {
  const instance = await getInstance(env, by, instanceId);
  const actionId = actionIdOf(by);
  const run = instance.run + 1;
  const next = { id: instanceId, tenantId: by.tenantId, run };
  const before = { status: instance.status, run: instance.run };
  // An instance in doubt remains so until an operator has resolved the outcome.
  const after = { status: undo ? (instance.status === "in_doubt" ? "in_doubt" : "running") : "terminated", run };
  const action: Action = { id: actionId, verb: "cancel", target: instanceId, instanceId, reason, detail: { run, undo }, before, after };
  await actAndTell(env, by, action, {
    change: undo ? beginCancel(next, actionId) : markStopped(next),
    also: { doubts: leaveDoubts(instanceId, actionId) },
    refused: async () => {
      const now = await getInstance(env, by, instanceId);
      return { why: whyRefused(now), from: now.status, to: "terminated" };
    },
    window: "cancel promised, not applied",
  });
  return { actionId };
}

function whyRefused({ status, undo }: Instance): string | null {
  if (undo !== null && UNDER_WAY.has(status)) return "The instance is being undone already, so it cannot be cancelled.";
  if (UNDER_WAY.has(status)) return null;
  if (ENDED.has(status))
    return `The instance is ${status}: only an instance that has not ended can be cancelled. To undo its effects, undo it.`;
  return `The instance is ${status}: it never started, so there is nothing to cancel.`;
}
