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

/** How an instance is cancelled. */
interface CancelOptions {
  /** False leaves standing what it did. Default true: that is taken back. */
  undo?: boolean | undefined;
}

/** Dry run: what a cancel would do with each effect, the last one first. Errors: `instance_not_found`. */
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
    // Of one that a lost answer left open nobody knows whether it happened; one that only reads is not waited for.
    unrecorded: (state, reads) => (reads ? undefined : UNRECORDED[state]),
  });
  return { refused: whyRefused(instance), from: null, follows: undo ? TAKEN_BACK : STANDS, effects: effects.toReversed() };
}

const UNRECORDED = { running: "under_way", retrying: "unknown", held: undefined } as const;

/** What a cancel does with an effect that failed without a record: it is done once more only to be taken back. */
function onFailed(known: Unrecorded, undo: boolean): PlanVerdict {
  return known === "undoable" && !undo ? "unknown" : VERDICT_ON[known];
}

const TAKEN_BACK =
  "The instance starts no further step. Running attempts are recorded first. An effect with a lost answer is repeated under its key if it can be undone, so that its outcome is known. Then effects with an undo handler are undone in reverse order, and the instance is terminated.";
const STANDS =
  "The instance starts no further step. Running attempts are recorded, then it is terminated. Its effects remain; you can undo them later.";

/**
 * Cancels an instance that is under way, also one that waits, is paused or has not begun: it begins no step any more, what is under way is
 * recorded, and what it did is taken back as an undo does that; then it is terminated. With `undo: false` what it did stands. Errors:
 * `instance_not_found`; `invalid_transition` (audited as no change) for one that is over, or is being undone already.
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
  // One that holds a doubt stays in doubt until a person has answered that.
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
