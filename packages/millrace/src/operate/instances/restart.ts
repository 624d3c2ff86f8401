import type { EngineEnv } from "../../contract/bindings.ts";
import { labelOf } from "../../contract/step-names.ts";
import { getInstance, type Instance } from "../../inspect/instances.ts";
import { type Action, actionIdOf, type Operator } from "../../store/actions.ts";
import { leaveDoubts } from "../../store/inbox/doubts.ts";
import { GOING_ON, RETRYABLE } from "../../store/instances/status.ts";
import { beginRestart } from "../../store/instances/stop.ts";
import { forgetTold } from "../../store/waits.ts";
import { actAndTell } from "../act.ts";
import { failedBefore } from "./failed-before.ts";
import { caughtWithoutRecord, stillCaught, triedAnew } from "./left.ts";
import { type ActionPlan, type PlanVerdict, planEffects, SET_BACK, withLost } from "./plan.ts";
import { whyRestarting } from "./restarting.ts";
import { isUnderWay, retryVerdictOn } from "./retry.ts";
import { beginningOf } from "./retry-beginning.ts";
import { findSetBack } from "./set-back.ts";

/** Dry run: the result of a restart for each effect. Errors: `instance_not_found`. */
export async function planRestart(env: EngineEnv, by: Operator, instanceId: string): Promise<ActionPlan> {
  const instance = await getInstance(env, by, instanceId);
  const caught = await stillCaught(env, instanceId, [instance.error?.step]);
  const isGoingOn = GOING_ON.has(instance.status);
  const effects = await planEffects(env, by, instance, {
    failed: await caughtWithoutRecord(env, instance, caught),
    recorded: (effect): PlanVerdict => (isGoingOn && isUnderWay(effect, caught) ? "under_way" : retryVerdictOn(effect, caught)),
    unrecorded: (state) => (isGoingOn && state === "running" ? "under_way" : "runs"),
  });
  const failed = RETRYABLE.has(instance.status) ? (instance.error?.step ?? "") : "";
  // A step that failed before its first record has no entry; it is executed again too.
  const listed = failed === "" || effects.some(({ step, item }) => labelOf(step, item) === failed);
  const all = listed ? effects : [...effects, { step: failed, item: "", verdict: "runs" as const }];
  const behind = await findSetBack(env, instance);
  return {
    refused: (await whyRestarting(env, instance)) ?? whyRefused(instance),
    from: null,
    follows: `${RETRYABLE.has(instance.status) ? "" : ENDS}${instance.status === "paused" ? RESUMES : ""}${PASSES}${behind ? SET_BACK : ""}`,
    effects: behind ? withLost(all, behind) : all,
  };
}

const ENDS = "The current run is ended as soon as no attempt is running. ";
const RESUMES = "The pause ends. ";
const PASSES =
  "The code is executed from the beginning. Recorded effects are kept, reads are repeated, and later steps run; the code determines which.";

/**
 * Restarts an instance that hangs or has failed. The platform runs its code from the beginning, under the same keys; each recorded effect
 * returns its recorded output. A wait continues with its remaining time. Errors: `instance_not_found`; `invalid_transition` (audited as no
 * change) for an instance that never started, or is complete, in doubt, undone, being undone or being restarted.
 */
export async function restartInstance(env: EngineEnv, by: Operator, instanceId: string, reason: string): Promise<{ actionId: string }> {
  const instance = await getInstance(env, by, instanceId);
  const actionId = actionIdOf(by);
  const run = instance.run + 1;
  const { failed } = await beginningOf(env, instance, undefined);
  const left = JSON.stringify(await triedAnew(env, instance, run, [failed]));
  const changed = { before: { status: instance.status, run: instance.run }, after: { status: "running", run } };
  const action: Action = {
    id: actionId,
    verb: "restart",
    target: instanceId,
    instanceId,
    reason,
    detail: { run, ...failedBefore(instance) },
    ...changed,
  };
  await actAndTell(env, by, action, {
    change: beginRestart({ id: instanceId, tenantId: by.tenantId, run, left }),
    also: { told: forgetTold(instanceId, actionId), doubts: leaveDoubts(instanceId, actionId) },
    refused: async () => {
      const now = await getInstance(env, by, instanceId);
      return { why: (await whyRestarting(env, now)) ?? whyRefused(now), from: now.status, to: "running" };
    },
    window: "restart promised, not applied",
  });
  return { actionId };
}

function whyRefused({ status, undo }: Instance): string | null {
  if (undo !== null)
    return "The instance is undone, or being undone, so it cannot be restarted. Once it is undone, a retry repeats the effects that were undone.";
  if (GOING_ON.has(status) || status === "paused" || RETRYABLE.has(status)) return null;
  if (status === "in_doubt")
    return "An effect of the instance is in doubt: resolve it (GET /v1/effects?state=in_doubt lists it), then the instance continues.";
  return `The instance is ${status}: only an instance that has not ended, or is errored or terminated, can be restarted.`;
}
