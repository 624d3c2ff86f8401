import type { Instance } from "../../inspect/instance-row.ts";
import { leaveDoubts } from "../../store/inbox/doubts.ts";
import { GOING_ON, RETRYABLE } from "../../store/instances/status.ts";
import { beginRestart } from "../../store/instances/stop.ts";
import { forgetTold } from "../../store/waits.ts";
import { instanceAct } from "./act.ts";
import { failedBefore, triedAnew, whyRestarting } from "./left.ts";
import { withLost } from "./plan.ts";
import { beginningOf, planRun } from "./retry.ts";
import { findSetBack } from "./set-back.ts";

/** Restarts an instance from the beginning of its code. A wait continues with its remaining time. */
export const restart = instanceAct({
  verb: "restart",
  path: "restart",
  summary: "Restart an instance that hangs",
  description:
    "Ends the run when no attempt is running. Then the workflow runs from the beginning with the same keys. Recorded effects return their recorded output and are not repeated.",
  accepted: "The restart was accepted",
  body: {},
  answer: {},
  refused: async ({ env, instance }) => (await whyRestarting(env, instance)) ?? whyRefused(instance),
  async plan(call) {
    const { status, error } = call.instance;
    const isOver = RETRYABLE.has(status);
    const effects = await planRun(call, { anew: [error?.step], isGoingOn: GOING_ON.has(status), start: isOver ? error?.step : null });
    const follows = `${isOver ? "" : ENDS}${status === "paused" ? RESUMES : ""}${PASSES}`;
    return withLost({ follows, effects }, await findSetBack(call.env, call.instance));
  },
  async change({ env, by, instance, actionId }) {
    const { id, status } = instance;
    const run = instance.run + 1;
    const { failed } = await beginningOf(env, instance, undefined);
    const left = JSON.stringify(await triedAnew(env, instance, run, [failed]));
    return {
      change: beginRestart({ id, tenantId: by.tenantId, run, left }),
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

function whyRefused({ status, undo }: Instance): string | null {
  if (undo !== null)
    return "The instance is undone, or being undone, so it cannot be restarted. Once it is undone, a retry repeats the effects that were undone.";
  if (GOING_ON.has(status) || status === "paused" || RETRYABLE.has(status)) return null;
  if (status === "in_doubt")
    return "An effect of the instance is in doubt: resolve it (GET /v1/effects?state=in_doubt lists it), then the instance continues.";
  return `The instance is ${status}: only an instance that has not ended, or is errored or terminated, can be restarted.`;
}
