import type { EngineEnv } from "../../contract/bindings.ts";
import { laneIn } from "../../contract/queue.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import { askPlatform } from "../../intake/platform.ts";
import { GOING_ON, UNSEEN } from "../../store/instances/status.ts";
import { markPaused, markResumed } from "../../store/instances/stop.ts";
import { instanceAct } from "./act.ts";
import { messageOfInstance, whyRestarting } from "./left.ts";
import { planRun } from "./retry.ts";

export const pause = instanceAct({
  verb: "pause",
  path: "pause",
  summary: "Pause an instance",
  description:
    "No step starts until the instance is resumed. A running effect is recorded first. A current sleep or wait continues and may end; an event or an answer that arrives is kept until the resume.",
  accepted: "It is paused",
  read: ({ env, instance }) => whyNotBegun(env, instance),
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

/** True for a command before its due time. */
function isDelayed({ due_at }: Instance): boolean {
  return due_at !== null && Date.parse(due_at) > Date.now();
}

/**
 * The reason for a refusal of a pause before the start; null for any other instance. Such an instance waits in a lane, for a slot of its
 * workflow's `concurrency`, or for the resume of its workflow or queue. A pause and a resume would start it all the same.
 */
async function whyNotBegun(env: EngineEnv, { id, workflow, status }: Instance): Promise<string | null> {
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
