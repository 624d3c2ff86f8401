import { type EngineEnv, objectsIn } from "../../contract/bindings.ts";
import { crashPoint } from "../../contract/crash-points.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { MillraceError } from "../../contract/errors.ts";
import { platformId } from "../../contract/ids.ts";
import { laneIn } from "../../contract/queue.ts";
import { sql } from "../../contract/sql.ts";
import { within } from "../../contract/within.ts";
import { doubtEventType } from "../../guard/doubt.ts";
import { askPlatform, type PlatformAnswer, restartFrom } from "../../intake/platform.ts";
import { startInstances } from "../../intake/start.ts";
import { tellEnded } from "../../lanes/turns-stub.ts";
import { type Approval, answerEventType } from "../../signals/approval.ts";
import { resumeEventType } from "../../signals/held.ts";
import { noteRunBegun } from "../../store/actions.ts";
import { atomically, query } from "../../store/d1/retry.ts";
import { noteLost } from "../../store/instances/lost.ts";
import { ENDED, type InstanceStatus, UNSEEN } from "../../store/instances/status.ts";
import { markRestarted } from "../../store/instances/stop.ts";
import { markInDoubt } from "../../store/instances/wait.ts";
import { findSetBack } from "../instances/set-back.ts";
import { keepCutOff } from "./cut-off.ts";
import { endRun, wakeStanding } from "./end-run.ts";
import { tellHeld } from "./tell-held.ts";

/** A promise to an operator that the platform has not heard of yet, and how its instance stands now. */
export interface OpenAction {
  id: string;
  verb: string;
  actor: string;
  reason: string;
  target: string;
  at: number;
  attempts: number;
  instance_id: string;
  from_step: string | null;
  /** The run that a retry, an undo, a cancel or a restart began; null for other verbs. */
  begun_run: number | null;
  /** 1 for the retry of an instance that is undone, or was stopped; null for other verbs. */
  undone: number | null;
  /** 1 for the retry and the undo of an instance that a person had stopped, without taking back what it did; null for others. */
  stopped: number | null;
  /** When the run that it promises began on the platform (`noteRunBegun`); null until then, and for one that promises none. */
  begun_at: number | null;
  run: number;
  status: InstanceStatus;
  workflow: string;
  /** The queue that its command came by; null where nobody knows. */
  queue: string | null;
  envelope: string;
  undo: string | null;
}

/** `kept`: the platform has heard of it, or need not · `not yet`: it has still to end the run that failed; come back soon. */
export type Kept = "kept" | "not yet";

/** A run that has told its end is over on the platform within moments. One that still lives after so many tries, 10 s apart, is ended. */
const TRIES_UNTIL_ENDED = 5;

/** Carries out on the platform what an operator was promised. Safe to repeat. Throws what the platform answers. */
export async function carryOut(env: EngineEnv, action: OpenAction): Promise<Kept> {
  switch (action.verb) {
    case "undo":
      return carryOutUndo(env, action);
    case "retry":
    case "skip_step":
      return carryOutRetry(env, action);
    case "cancel":
      return carryOutCancel(env, action);
    case "close":
      return carryOutClose(env, action);
    case "restart":
      return carryOutRestart(env, action);
    case "pause":
      return carryOutPause(env, action);
    case "resume":
      return carryOutResume(env, action);
    case "approve":
    case "reject_approval": {
      const answer: Approval = { approved: action.verb === "approve", by: action.actor, reason: action.reason };
      return carryOutAnswer(env, action, answerEventType(action.target), answer);
    }
    case "confirm":
    case "reject":
    case "retry_anyway":
      return carryOutAnswer(env, action, doubtEventType(action.target), { resolved: action.verb });
    default:
      throw new MillraceError(
        "config_invalid",
        `The action "${action.verb}" has no implementation: add it to operate/carry-out/carry-out.ts.`,
      );
  }
}

/**
 * Begins an undo, once the run that it takes back is over on the platform too: one that lives behind its row's end is ended, once no
 * attempt of it is under way.
 */
async function carryOutUndo(env: EngineEnv, action: OpenAction): Promise<Kept> {
  const { instance, status } = await reached(env, { ...action, undo: null });
  if (instance && !ENDED.has(status)) {
    if (action.attempts < TRIES_UNTIL_ENDED) return notYet(env, instance, action);
    if ((await endRun(env, action)) === "not yet") return "not yet";
  }
  if (isToNoteCutOff(status, action)) await keepCutOff(env, action);
  await beginToTakeBack(env, action);
  return "kept";
}

/** From now on no commit of the run before is recorded any more: the undo would not find it. */
async function beginToTakeBack(env: EngineEnv, action: OpenAction): Promise<void> {
  await atomically(env.DB, [noteRunBegun(action.id)]);
  await existing(env, action);
}

/** Ends a run that lives behind its row's end, and lets the lane go on that stands still for the instance. */
async function carryOutClose(env: EngineEnv, action: OpenAction): Promise<Kept> {
  if ((await endRun(env, action)) === "not yet") return "not yet";
  const { queue, envelope, instance_id: id } = action;
  // A deployment that has no lanes any more binds no object for them.
  if (queue !== null && laneIn(queue) !== undefined && objectsIn(env, "LANES"))
    await tellEnded(env, queue, JSON.parse(envelope) as Envelope, id, { status: "skipped", error: null });
  return "kept";
}

/**
 * Ends the run that is cancelled, then begins to take back what it did. What the platform has never had is created all the same: its pass
 * ends at once, and no late copy of its message can start it under its name any more.
 */
async function carryOutCancel(env: EngineEnv, action: OpenAction): Promise<Kept> {
  // Another run has begun since: whoever began it ends this one.
  if (action.run !== action.begun_run) return "kept";
  const end = await endRun(env, action);
  if (end === "unknown") await existing(env, { ...action, undo: null });
  if (end !== "ended") return "not yet";
  await crashPoint("stopped on the platform, not begun anew", action.instance_id);
  await keepCutOff(env, action);
  if (action.undo === action.id) await beginToTakeBack(env, action);
  return "kept";
}

/** Ends the run that hangs, then has the platform pass through the code from the beginning. */
async function carryOutRestart(env: EngineEnv, action: OpenAction): Promise<Kept> {
  if (action.run !== action.begun_run || ENDED.has(action.status)) return "kept";
  if (action.begun_at !== null) {
    const { instance, status } = await existing(env, action);
    if (instance && !ENDED.has(status)) await tellHeld(env, instance, action);
    return "kept";
  }
  const end = await endRun(env, action);
  if (end === "not yet") return "not yet";
  await crashPoint("stopped on the platform, not begun anew", action.instance_id);
  await keepCutOff(env, action);
  // An attempt that was under way may have ended in doubt since the restart was asked for.
  await atomically(env.DB, [markRestarted(action.instance_id, action.run), markInDoubt(action.instance_id)]);
  // A pass that came too late to hear of the restart may have gone on to the end: what is complete keeps its result.
  const [now] = await query<{ status: InstanceStatus }>(
    env.DB,
    sql`SELECT status FROM millrace_instances WHERE id = ${action.instance_id}`,
  );
  if (now?.status === "complete") return "kept";
  const { instance } = await existing(env, action);
  if (!instance) return "kept";
  await restartRun(env, instance, { ...action, from_step: null });
  await tellHeld(env, instance, action);
  return "kept";
}

/**
 * What the platform has never had is created, so that its pass looks before it begins anything: a message that comes later starts nothing.
 * Not what waits for its turn in a lane, which is not paused.
 */
async function carryOutPause(env: EngineEnv, action: OpenAction): Promise<Kept> {
  if (action.status === "paused") await existing(env, action);
  return "kept";
}

/**
 * Wakes a run that waits to be resumed. What was never started is its queue's to start, its lane's, or the keeper's; one that was cancelled
 * since is the cancel's to end, before anything of it is taken back.
 */
async function carryOutResume(env: EngineEnv, action: OpenAction): Promise<Kept> {
  if (ENDED.has(action.status) || action.status === "paused" || action.undo !== null) return "kept";
  const { instance, status } = UNSEEN.has(action.status) ? await reached(env, action) : await existing(env, action);
  if (instance && !ENDED.has(status)) await within(instance.sendEvent({ type: resumeEventType(action.instance_id), payload: {} }));
  return "kept";
}

/** Runs an instance again from the step that failed, and tells it what came for its other branches. */
async function carryOutRetry(env: EngineEnv, action: OpenAction): Promise<Kept> {
  // Only the run that this retry began, or a later one, can have ended since: it was restarted before.
  if (ENDED.has(action.status) || action.run !== (action.begun_run ?? action.run)) return "kept";
  const { instance, status } = await existing(env, action);
  if (!instance) return "kept";
  const ended = ENDED.has(status);
  if (action.begun_at === null) {
    // A run that was stopped has not told its end: whatever of it still sleeps or waits is ended.
    if (!ended && action.undone !== 1 && action.attempts < TRIES_UNTIL_ENDED) return notYet(env, instance, action);
    if (!ended && (await endRun(env, action)) === "not yet") return "not yet";
    if (isToNoteCutOff(status, action)) await keepCutOff(env, action);
    await restartRun(env, instance, action);
  } else if (ended) return "kept";
  await tellHeld(env, instance, action);
  return "kept";
}

/**
 * What ended by itself has cut nothing off. A run that a person had stopped may have, also where it is over by now: another run has begun
 * before the stop was carried out, which so has noted nothing.
 */
function isToNoteCutOff(status: PlatformAnswer["status"], { stopped }: OpenAction): boolean {
  return stopped === 1 || !ENDED.has(status);
}

/** The run that is to be over still lives on the platform. */
async function notYet(env: EngineEnv, instance: WorkflowInstance, { attempts }: OpenAction): Promise<Kept> {
  await wakeStanding(env, instance, attempts);
  return "not yet";
}

async function restartRun(env: EngineEnv, instance: WorkflowInstance, action: OpenAction): Promise<void> {
  const behind = action.undo === null ? await findSetBack(env, { id: action.instance_id, workflow: action.workflow }) : undefined;
  if (behind) await atomically(env.DB, [noteLost(action.instance_id, behind.lost)]);
  // The platform remembers results whose rows are lost: from the beginning they are written again.
  const name = behind ? null : action.from_step;
  await restartFrom(instance, name ? { name } : undefined);
  await atomically(env.DB, [noteRunBegun(action.id)]);
  await crashPoint("restarted, not told");
}

/** Sends an event to an instance that waits for it. One that has ended meanwhile is told by the retry that restarts it. */
async function carryOutAnswer(env: EngineEnv, action: OpenAction, type: string, payload: unknown): Promise<Kept> {
  // One that has ended, and that the platform has forgotten since, is nobody's to begin but an operator's who retries it; an undo that is
  // not begun yet finds what was said.
  const { instance, status } = ENDED.has(action.status) || action.undo !== null ? await reached(env, action) : await existing(env, action);
  if (instance && !ENDED.has(status)) await within(instance.sendEvent({ type, payload }));
  return "kept";
}

/**
 * The instance, or its undo, on the platform. One it has forgotten is created anew, which is all it needs: its inbox answers for what is
 * done.
 */
async function existing(env: EngineEnv, { workflow, instance_id, envelope, undo }: OpenAction): Promise<PlatformAnswer> {
  const answer = await reached(env, { workflow, instance_id, undo });
  if (answer.status === "unknown") {
    const { failed } = await startInstances(
      env,
      [{ id: instance_id, workflow, envelope: JSON.parse(envelope) as Envelope, undo }],
      "again",
    );
    for (const why of failed.values()) throw new MillraceError("unavailable", why);
  }
  return answer;
}

/** What the platform says of the instance. Errors: `unavailable` when it does not answer. */
async function reached(
  env: EngineEnv,
  { workflow, instance_id, undo }: Pick<OpenAction, "workflow" | "instance_id" | "undo">,
): Promise<PlatformAnswer> {
  const answer = await askPlatform(env, workflow, platformId(instance_id, undo));
  if (answer.status === "unreachable") throw new MillraceError("unavailable", answer.error ?? "The platform did not answer.");
  return answer;
}
