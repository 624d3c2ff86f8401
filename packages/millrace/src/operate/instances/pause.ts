import type { EngineEnv } from "../../contract/bindings.ts";
import { laneIn } from "../../contract/queue.ts";
import { sql } from "../../contract/sql.ts";
import { getInstance, type Instance } from "../../inspect/instances.ts";
import { askPlatform } from "../../intake/platform.ts";
import { type Action, actionIdOf, type Operator } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { GOING_ON, UNSEEN } from "../../store/instances/status.ts";
import { markPaused, markResumed } from "../../store/instances/stop.ts";
import { actAndTell } from "../act.ts";
import { caughtWithoutRecord, stillCaught } from "./left.ts";
import { type ActionPlan, type PlanVerdict, planEffects } from "./plan.ts";
import { whyRestarting } from "./restarting.ts";
import { isUnderWay, retryVerdictOn } from "./retry.ts";

/** Dry run: the result of a pause for each effect. Errors: `instance_not_found`. */
export async function planPause(env: EngineEnv, by: Operator, instanceId: string): Promise<ActionPlan> {
  const instance = await getInstance(env, by, instanceId);
  const caught = await stillCaught(env, instanceId);
  const effects = await planEffects(env, by, instance, {
    failed: await caughtWithoutRecord(env, instance, caught),
    recorded: (effect): PlanVerdict => (isUnderWay(effect, caught) ? "under_way" : held(retryVerdictOn(effect, caught))),
    unrecorded: (state) => (state === "running" ? "under_way" : "held"),
  });
  const refused = (await whyRestarting(env, instance)) ?? whyNotPaused(instance, await waitsInLane(env, instance));
  return { refused, from: null, follows: PAUSED, effects };
}

const held = (verdict: PlanVerdict): PlanVerdict => (verdict === "runs" ? "held" : verdict);

const PAUSED =
  "Running attempts are recorded. Then no step starts until the instance is resumed. If the running step is the last one, the instance ends. Sleeps and waits continue to count down. Events and answers that arrive are kept until the resume.";

/**
 * Pauses an instance: no further step begins until it is resumed, and a running effect is recorded first. The timer of a current sleep or
 * wait continues; its end takes effect after the resume. Errors: `instance_not_found`; `invalid_transition` (audited as no change) for an
 * instance that is not running or waiting, that is being undone, or that is queued in a lane.
 */
export async function pauseInstance(env: EngineEnv, by: Operator, instanceId: string, reason: string): Promise<{ actionId: string }> {
  const instance = await getInstance(env, by, instanceId);
  const inLane = await waitsInLane(env, instance);
  const actionId = actionIdOf(by);
  const changed = { before: { status: instance.status }, after: { status: "paused" } };
  const action: Action = { id: actionId, verb: "pause", target: instanceId, instanceId, reason, ...changed };
  await actAndTell(env, by, action, {
    change: markPaused({ id: instanceId, tenantId: by.tenantId }, inLane),
    refused: async () => {
      const now = await getInstance(env, by, instanceId);
      return { why: (await whyRestarting(env, now)) ?? whyNotPaused(now, inLane), from: now.status, to: "paused" };
    },
    window: "pause committed, not applied",
  });
  return { actionId };
}

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

/** Dry run: the effects with which a resumed instance continues. Errors: `instance_not_found`. */
export async function planResume(env: EngineEnv, by: Operator, instanceId: string): Promise<ActionPlan> {
  const instance = await getInstance(env, by, instanceId);
  const caught = await stillCaught(env, instanceId);
  const effects = await planEffects(env, by, instance, {
    failed: await caughtWithoutRecord(env, instance, caught),
    recorded: (effect): PlanVerdict => (isUnderWay(effect, caught) ? "under_way" : retryVerdictOn(effect, caught)),
    unrecorded: (state) => (state === "running" ? "under_way" : "runs"),
  });
  const refused = (await whyRestarting(env, instance)) ?? whyNotResumed(instance);
  return { refused, from: null, follows: "The instance continues where it was paused.", effects };
}

/**
 * Resumes a paused instance at its current step. Errors: `instance_not_found`; `invalid_transition` (audited as no change) for an instance
 * that is not paused, or that is paused for its restart.
 */
export async function resumeInstance(env: EngineEnv, by: Operator, instanceId: string, reason: string): Promise<{ actionId: string }> {
  const { status } = await getInstance(env, by, instanceId);
  const actionId = actionIdOf(by);
  const changed = { before: { status }, after: { status: "running" } };
  const action: Action = { id: actionId, verb: "resume", target: instanceId, instanceId, reason, ...changed };
  await actAndTell(env, by, action, {
    change: markResumed({ id: instanceId, tenantId: by.tenantId }),
    refused: async () => {
      const now = await getInstance(env, by, instanceId);
      return { why: (await whyRestarting(env, now)) ?? whyNotResumed(now), from: now.status, to: "running" };
    },
    window: "resume promised, not applied",
  });
  return { actionId };
}

function whyNotResumed({ status }: Instance): string | null {
  return status === "paused" ? null : `The instance is ${status}, not paused, so it cannot be resumed.`;
}
