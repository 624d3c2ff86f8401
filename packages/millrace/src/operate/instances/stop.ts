import * as z from "zod";
import type { EngineEnv } from "../../contract/bindings.ts";
import type { PlanVerdict } from "../../contract/plan-verdicts.ts";
import { laneIn } from "../../contract/queue.ts";
import { labelOf } from "../../contract/step-names.ts";
import { effectsOf } from "../../inspect/effects.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import { askPlatform } from "../../intake/platform.ts";
import type { Unrecorded } from "../../replay/failure.ts";
import { auditDerivedCancels, type Operator } from "../../store/actions.ts";
import { leaveDoubts, leaveDoubtsOfChildren } from "../../store/inbox/doubts.ts";
import { cancelChildren } from "../../store/instances/children.ts";
import { ENDED, GOING_ON, REFUSED, RETRYABLE, UNDER_WAY, UNSEEN } from "../../store/instances/status.ts";
import { beginCancel, beginRestart, markClosed, markPaused, markResumed, markStopped } from "../../store/instances/stop.ts";
import { forgetTold } from "../../store/waits.ts";
import { instanceAct } from "./act.ts";
import { failedBefore, findSetBack, messageOfInstance, pastOf, storedForRetry, whyInDoubt, whyRestarting } from "./past.ts";
import { type ActionPlan, planEffects, withLost } from "./plan.ts";
import { beginningOf, planRun } from "./retry.ts";
import { type UndoVerdict, undoEffects, undoVerdictOn, VERDICT_ON } from "./undo.ts";

export const cancel = instanceAct({
  verb: "cancel",
  path: "cancel",
  summary: "Cancel a running instance",
  final: "A started cancel cannot be stopped.",
  description:
    "No further step starts, also if the instance waits, is paused or has not started. A running effect is recorded first. Then the effects with an undo handler are undone in reverse order, each once, and the instance is terminated. A dry run lists them in that order.",
  accepted: "The cancel was accepted",
  body: {
    undo: z.boolean().default(true).meta({ description: "True undoes the effects of the instance, false keeps them. Default true." }),
  },
  refused({ instance: { status, undo } }) {
    if (undo !== null && UNDER_WAY.has(status)) return "The instance is being undone already, so it cannot be cancelled.";
    if (UNDER_WAY.has(status)) return null;
    if (ENDED.has(status))
      return `The instance is ${status}: only an instance that has not ended can be cancelled. To undo its effects, undo it.`;
    return `The instance is ${status}: it never started, so there is nothing to cancel.`;
  },
  async plan({ env, by, instance, given: { undo = true } }) {
    const { caught, unrecorded } = await pastOf(env, instance);
    const failed = [...unrecorded].map(([label, known]) => [label, onFailed(known, undo)] as const);
    const effects = await planEffects(env, by, instance, {
      failed: new Map(failed),
      recorded: (effect): PlanVerdict => {
        if (effect.state === "claimed" && !caught.has(labelOf(effect.step, effect.item))) return "under_way";
        const verdict = undoVerdictOn(effect);
        return undo || (verdict !== "undone" && verdict !== "stays") ? verdict : "kept";
      },
      // The outcome of an effect without a recorded answer is unknown. A cancel does not wait for a read, so a read without an answer has
      // no verdict.
      unrecorded: (state, reads) => (reads ? undefined : UNRECORDED[state]),
    });
    return { consequence: undo ? CANCEL_UNDOES : CANCEL_KEEPS, effects: effects.toReversed() };
  },
  change({ instance: { status, run: before }, given: { undo = true }, actionId, next }) {
    const { id, run } = next;
    return {
      change: undo ? beginCancel(next, actionId) : markStopped(next),
      also: {
        doubts: leaveDoubts(id, actionId),
        children: [auditDerivedCancels(id, actionId, undo), cancelChildren(next, actionId, undo), leaveDoubtsOfChildren(next, actionId)],
      },
      detail: { run, undo },
      before: { status, run: before },
      // An instance in doubt remains in doubt until an operator has resolved the outcome.
      after: { status: undo ? (status === "in_doubt" ? "in_doubt" : "running") : "terminated", run },
      to: "terminated",
      window: "cancel committed, not applied",
    };
  },
  bulk: {
    from: UNDER_WAY.values,
    needs: "undo",
    given: ({ undo = true }) => ({ undo }),
    runs: true,
    consequence: async ({ options: { undo = true } }) => (undo ? CANCELS_UNDO : CANCELS_KEEP),
  },
});

const UNRECORDED = { running: "under_way", retrying: "unknown", held: undefined } as const;

/** The verdict on an effect that failed without a record. The effect is executed again only if the cancel undoes effects. */
function onFailed(known: Unrecorded, undo: boolean): PlanVerdict {
  return known === "undoable" && !undo ? "unknown" : VERDICT_ON[known];
}

const CANCEL_UNDOES =
  "The instance starts no further step. Running attempts are recorded first. An effect with a lost answer is repeated under its key if it can be undone, so that its outcome is known. Then effects with an undo handler are undone in reverse order, and the instance is terminated.";
const CANCEL_KEEPS =
  "The instance starts no further step. Running attempts are recorded, then it is terminated. Its effects remain; you can undo them later.";
const CANCELS_UNDO =
  "Their effects are undone where an undo handler exists. A cancel cannot be stopped once it has begun. With `undo: false`, their effects remain.";
const CANCELS_KEEP =
  "The instances are terminated and their effects remain. A cancel cannot be stopped once it has begun. You can undo each instance later.";

export const pause = instanceAct({
  verb: "pause",
  path: "pause",
  summary: "Pause an instance",
  description:
    "No step starts until the instance is resumed. A running effect is recorded first. A current sleep or wait continues and may end; an event or an answer that arrives is kept until the resume.",
  accepted: "It is paused",
  read: ({ env, instance }) => whyNoPause(env, instance),
  async refused({ env, instance }, notBegun) {
    const { status, undo } = instance;
    if (GOING_ON.has(status)) return undo !== null ? "The instance is being undone: an undo cannot be paused." : notBegun;
    if (status === "paused") return (await whyRestarting(env, instance)) ?? "The instance is paused already.";
    if (status === "in_doubt") return "The instance is in doubt: it starts no step until an operator resolves the unknown outcome.";
    return `The instance is ${status}: only an instance that has not ended can be paused.`;
  },
  plan: async (call) => ({
    consequence:
      PAUSED + (isDelayed(call.instance) ? ` Its due time, ${call.instance.due_at}, no longer applies: a resume starts it at once.` : ""),
    effects: await planRun(call, { isGoingOn: true, runs: "held" }),
  }),
  change: ({ instance: { status }, next }, notBegun) => ({
    change: notBegun === null ? markPaused(next) : null,
    before: { status },
    after: { status: "paused" },
    window: "pause committed, not applied",
  }),
  bulk: { from: GOING_ON.values, consequence: "A resume starts delayed commands at once, also before their due times." },
});

const PAUSED =
  "Running attempts are recorded. Then no step starts until the instance is resumed. If the running step is the last one, the instance ends. Sleeps and waits continue to count down. Events and answers that arrive are kept until the resume.";

function isDelayed({ due_at }: Instance): boolean {
  return due_at !== null && Date.parse(due_at) > Date.now();
}

/** The instance waits in a lane, for a slot, or for the resume of its workflow or queue, which would start it although it is paused. */
async function whyNoPause(env: EngineEnv, { id, workflow, status }: Instance): Promise<string | null> {
  if (!UNSEEN.has(status)) return null;
  const { queue, waits, is_stopped } = await messageOfInstance(env, id);
  if (waits === 1) return "The instance waits for a slot of its workflow: pause the workflow, or cancel the instance.";
  const isInLane = laneIn(queue) !== undefined;
  if (!(isInLane || is_stopped === 1) || (await askPlatform(env, workflow, id)).instance !== null) return null;
  return isInLane
    ? "The instance waits for its turn in a lane: pause the lane (GET /v1/lanes lists it), or cancel the instance."
    : "The workflow or queue of the instance is paused, so the instance does not start until its resume.";
}

export const resume = instanceAct({
  verb: "resume",
  path: "resume",
  summary: "Resume a paused instance",
  description: "The instance continues where it was paused. A command that was paused before its due time starts at once.",
  accepted: "It continues",
  refused({ env, instance }) {
    if (instance.status !== "paused") return `The instance is ${instance.status}, not paused, so it cannot be resumed.`;
    return whyRestarting(env, instance);
  },
  plan: async (call) => ({
    consequence: isDelayed(call.instance)
      ? `The command starts at once, before its due time, ${call.instance.due_at}.`
      : "The instance continues where it was paused.",
    effects: await planRun(call, { isGoingOn: true }),
  }),
  change: ({ instance: { status }, next }) => ({
    change: markResumed(next),
    before: { status },
    after: { status: "running" },
    window: "resume committed, not applied",
  }),
  bulk: { from: ["paused"], usual: "paused", consequence: "Commands that were paused before their due times start at once." },
});

/** Restarts an instance from the beginning of its code. A wait continues with its remaining time. */
export const restart = instanceAct({
  verb: "restart",
  path: "restart",
  summary: "Restart an instance that hangs",
  description:
    "Ends the run when no attempt is running. Then the workflow runs from the beginning with the same keys. Recorded effects return their recorded output and are not repeated.",
  accepted: "The restart was accepted",
  read: ({ env, instance }) => whyNoRestart(env, instance),
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
    const effects = await planRun(call, { cleared: [error?.step], isGoingOn: GOING_ON.has(status), start: isOver ? error?.step : null });
    const consequence = `${isOver ? "" : ENDS}${status === "paused" ? RESUMES : ""}${EXECUTES}`;
    return withLost({ consequence, effects }, await findSetBack(call.env, call.instance));
  },
  async change({ env, instance, actionId, next }, notBegun) {
    const { id, status } = instance;
    const { run } = next;
    const past = await pastOf(env, instance);
    const { failed } = await beginningOf(env, instance, past, undefined);
    const left = storedForRetry(past, run, null, failed);
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
const EXECUTES =
  "The code is executed from the beginning. Recorded effects are kept, reads are repeated, and later steps run; the code determines which.";

/** A restart would start the instance before its due time, its turn in a lane, its slot or the resume of its workflow. */
async function whyNoRestart(env: EngineEnv, { id, workflow, status }: Instance): Promise<string | null> {
  if (!UNSEEN.has(status)) return null;
  const { instance, status: known } = await askPlatform(env, workflow, id);
  if (instance !== null) return null;
  if (known === "unknown") return "The instance has not started, so it cannot be restarted. Its queue, lane or workflow starts it.";
  return "The platform did not answer whether the instance has started. Repeat the restart in a few seconds.";
}

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
    const effects = await remaining(env, by, instance);
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

async function remaining(env: EngineEnv, by: Operator, instance: Instance): Promise<ActionPlan["effects"]> {
  const found = (await undoEffects(env, by, instance)).toReversed();
  const label = ({ step, item }: (typeof found)[number]) => labelOf(step, item);
  const back = (await effectsOf(env, by, instance.id)).filter(({ is_undone }) => is_undone);
  const undone = new Map(back.map(({ step, item }) => [labelOf(step, item), { step, item, verdict: "undone" } as const]));
  const listed = found.map((one) => {
    const before = undone.get(label(one));
    undone.delete(label(one));
    return before && one.verdict === "nothing" ? before : { ...one, verdict: REMAINS[one.verdict] };
  });
  return [...undone.values(), ...listed];
}

const REMAINS = {
  ...{ undone: "kept", stays: "kept", asked: "unknown", repeated: "unknown" },
  ...{ nothing: "nothing", in_doubt: "in_doubt", unknown: "unknown" },
} as const satisfies Record<UndoVerdict, PlanVerdict>;

function remainsOf({ undo }: Instance): string {
  if (undo === "done") return "Its effects are undone already.";
  return undo === null ? "Its effects remain." : "Effects that its undo has not undone remain.";
}
