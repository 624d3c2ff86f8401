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
  body: {},
  answer: {},
  read: ({ env, instance }) => waitingPlace(env, instance),
  refused: async ({ env, instance }, place) => (await whyRestarting(env, instance)) ?? whyNotPaused(instance, place),
  plan: async (call) => ({ follows: PAUSED, effects: await planRun(call, { isGoingOn: true, runs: "held" }) }),
  change: ({ by, instance: { id, status } }, place) => ({
    change: markPaused({ id, tenantId: by.tenantId }, place === "lane"),
    before: { status },
    after: { status: "paused" },
    window: "pause committed, not applied",
  }),
  bulk: { from: GOING_ON.values },
});

const PAUSED =
  "Running attempts are recorded. Then no step starts until the instance is resumed. If the running step is the last one, the instance ends. Sleeps and waits continue to count down. Events and answers that arrive are kept until the resume.";

/** Where an instance waits before its start: in a lane, or for a slot of its workflow's `concurrency`. Null for any other instance. */
async function waitingPlace(env: EngineEnv, { id, workflow, status }: Instance): Promise<"lane" | "slot" | null> {
  if (!UNSEEN.has(status)) return null;
  const { queue, waits } = await messageOfInstance(env, id);
  if (waits === 1) return "slot";
  return laneIn(queue) !== undefined && (await askPlatform(env, workflow, id)).instance === null ? "lane" : null;
}

function whyNotPaused({ status, undo }: Instance, place: "lane" | "slot" | null): string | null {
  if (undo !== null && GOING_ON.has(status)) return "The instance is being undone: an undo cannot be paused.";
  if (place === "slot") return "The instance waits for a slot of its workflow: pause the workflow, or cancel the instance.";
  if (place === "lane")
    return "The instance waits for its turn in a lane: pause the lane (GET /v1/lanes lists it), or cancel the instance.";
  if (GOING_ON.has(status)) return null;
  if (status === "paused") return "The instance is paused already.";
  if (status === "in_doubt") return "The instance is in doubt: it starts no step until an operator resolves the unknown outcome.";
  return `The instance is ${status}: only an instance that has not ended can be paused.`;
}

export const resume = instanceAct({
  verb: "resume",
  path: "resume",
  summary: "Resume a paused instance",
  description: "The instance continues where it was paused.",
  accepted: "It continues",
  body: {},
  answer: {},
  refused: async ({ env, instance }) => (await whyRestarting(env, instance)) ?? whyNotResumed(instance),
  plan: async (call) => ({ follows: "The instance continues where it was paused.", effects: await planRun(call, { isGoingOn: true }) }),
  change: ({ by, instance: { id, status } }) => ({
    change: markResumed({ id, tenantId: by.tenantId }),
    before: { status },
    after: { status: "running" },
    window: "resume committed, not applied",
  }),
  bulk: { from: ["paused"], usual: "paused" },
});

function whyNotResumed({ status }: Instance): string | null {
  return status === "paused" ? null : `The instance is ${status}, not paused, so it cannot be resumed.`;
}
