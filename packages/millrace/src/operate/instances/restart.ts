import type { EngineEnv } from "../../contract/bindings.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import { askPlatform } from "../../intake/platform.ts";
import { leaveDoubts } from "../../store/inbox/doubts.ts";
import { GOING_ON, RETRYABLE, UNSEEN } from "../../store/instances/status.ts";
import { beginRestart } from "../../store/instances/stop.ts";
import { forgetTold } from "../../store/waits.ts";
import { instanceAct } from "./act.ts";
import { failedBefore, findSetBack, pastOf, triedAnew, whyRestarting } from "./left.ts";
import { withLost } from "./plan.ts";
import { beginningOf, planRun } from "./retry.ts";

/** Restarts an instance from the beginning of its code. A wait continues with its remaining time. */
export const restart = instanceAct({
  verb: "restart",
  path: "restart",
  summary: "Restart an instance that hangs",
  description:
    "Ends the run when no attempt is running. Then the workflow runs from the beginning with the same keys. Recorded effects return their recorded output and are not repeated.",
  accepted: "The restart was accepted",
  read: ({ env, instance }) => whyNotBegun(env, instance),
  async refused({ env, instance }, notBegun) {
    const { status, undo } = instance;
    if (undo !== null)
      return "The instance is undone, or being undone, so it cannot be restarted. Once it is undone, a retry repeats the effects that were undone.";
    if (status === "paused") return whyRestarting(env, instance);
    if (GOING_ON.has(status) || RETRYABLE.has(status)) return notBegun;
    if (status === "in_doubt")
      return "An effect of the instance is in doubt: resolve it (GET /v1/effects?state=in_doubt lists it), then the instance continues.";
    return `The instance is ${status}: only an instance that has not ended, or is errored or terminated, can be restarted.`;
  },
  async plan(call) {
    const { status, error } = call.instance;
    const isOver = RETRYABLE.has(status);
    const effects = await planRun(call, { anew: [error?.step], isGoingOn: GOING_ON.has(status), start: isOver ? error?.step : null });
    const consequence = `${isOver ? "" : ENDS}${status === "paused" ? RESUMES : ""}${PASSES}`;
    return withLost({ consequence, effects }, await findSetBack(call.env, call.instance));
  },
  async change({ env, instance, actionId, next }, notBegun) {
    const { id, status } = instance;
    const { run } = next;
    const past = await pastOf(env, instance);
    const { failed } = await beginningOf(env, instance, past, undefined);
    const left = triedAnew(past, run, null, failed);
    return {
      change: notBegun === null ? beginRestart({ ...next, left }) : null,
      also: { told: forgetTold(id, actionId), doubts: leaveDoubts(id, actionId) },
      detail: { run, ...failedBefore(instance) },
      before: { status, run: instance.run },
      after: { status: "running", run },
      window: "restart committed, not applied",
    };
  },
});

const ENDS = "The current run is ended as soon as no attempt is running. ";
const RESUMES = "The pause ends. ";
const PASSES =
  "The code is executed from the beginning. Recorded effects are kept, reads are repeated, and later steps run; the code determines which.";

/**
 * The reason for a refusal of an instance that the platform has not created; null for any other instance. A restart would start the
 * instance before its due time, its turn in a lane, its slot or the resume of its workflow.
 */
async function whyNotBegun(env: EngineEnv, { id, workflow, status }: Instance): Promise<string | null> {
  if (!UNSEEN.has(status)) return null;
  const { instance, status: known } = await askPlatform(env, workflow, id);
  if (instance !== null) return null;
  if (known === "unknown") return "The instance has not started, so it cannot be restarted. Its queue, lane or workflow starts it.";
  return "The platform did not answer whether the instance has started. Repeat the restart in a few seconds.";
}
