import type { EngineEnv } from "../../contract/bindings.ts";
import { laneIn } from "../../contract/queue.ts";
import { sql } from "../../contract/sql.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import { askPlatform } from "../../intake/platform.ts";
import { query } from "../../store/d1/retry.ts";
import { GOING_ON, UNSEEN } from "../../store/instances/status.ts";
import { markPaused, markResumed } from "../../store/instances/stop.ts";
import { instanceAct } from "./act.ts";
import { whyRestarting } from "./left.ts";
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
  read: ({ env, instance }) => waitsInLane(env, instance),
  refused: async ({ env, instance }, inLane) => (await whyRestarting(env, instance)) ?? whyNotPaused(instance, inLane),
  plan: async (call) => ({ follows: PAUSED, effects: await planRun(call, { isGoingOn: true, runs: "held" }) }),
  change: ({ by, instance: { id, status } }, inLane) => ({
    change: markPaused({ id, tenantId: by.tenantId }, inLane),
    before: { status },
    after: { status: "paused" },
    window: "pause committed, not applied",
  }),
  bulk: { from: GOING_ON.values },
});

const PAUSED =
  "Running attempts are recorded. Then no step starts until the instance is resumed. If the running step is the last one, the instance ends. Sleeps and waits continue to count down. Events and answers that arrive are kept until the resume.";

async function waitsInLane(env: EngineEnv, { id, workflow, status }: Instance): Promise<boolean> {
  if (!UNSEEN.has(status)) return false;
  const [row] = await query<{ queue: string | null }>(env.DB, sql`SELECT queue FROM millrace_instances WHERE id = ${id}`);
  return laneIn(row?.queue ?? null) !== undefined && (await askPlatform(env, workflow, id)).instance === null;
}

function whyNotPaused({ status, undo }: Instance, inLane: boolean): string | null {
  if (undo !== null && GOING_ON.has(status)) return "The instance is being undone: an undo cannot be paused.";
  if (inLane) return "The instance waits for its turn in a lane: pause the lane (GET /v1/lanes lists it), or cancel the instance.";
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
