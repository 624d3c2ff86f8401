import { type EngineEnv, objectsIn } from "../../contract/bindings.ts";
import { crashPoint, isSimulatedDeath } from "../../contract/crash-points.ts";
import { type Elsewhere, leftBy } from "../../contract/elsewhere.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { MillraceError, messageOf } from "../../contract/errors.ts";
import { formatEntryKey, platformId } from "../../contract/ids.ts";
import { logLine } from "../../contract/log-line.ts";
import { laneIn } from "../../contract/queue.ts";
import { among, now, type Statement, sql } from "../../contract/sql.ts";
import { beginning } from "../../contract/text.ts";
import { type Portion, within } from "../../contract/within.ts";
import { doubtEventType } from "../../guard/doubt.ts";
import { type PlatformAnswer, restartFrom } from "../../intake/platform.ts";
import { tellEnded } from "../../lanes/turns-stub.ts";
import { startInstances } from "../../recorder/start.ts";
import { causeOfFailure, type Failure } from "../../replay/failure.ts";
import { type Approval, answerEventType, resumeEventType, tellAnswers } from "../../signals/approval.ts";
import { tellAgain } from "../../signals/assign.ts";
import { auditDerivedCancels, giveUpActions, noteKept, noteRunBegun, putOff, takeActions } from "../../store/actions.ts";
import { atomically, query } from "../../store/d1/retry.ts";
import { type ResolvedEntry, selectResolved } from "../../store/inbox/read.ts";
import { cancelChildren } from "../../store/instances/children.ts";
import { noteLost } from "../../store/instances/look.ts";
import { giveUpRuns } from "../../store/instances/run.ts";
import { ENDED, type InstanceStatus, UNSEEN } from "../../store/instances/status.ts";
import { markRestarted } from "../../store/instances/stop.ts";
import { markInDoubt } from "../../store/instances/wait.ts";
import { findSetBack } from "../instances/past.ts";
import { endRun, keepCutOff, reached, wakeRun } from "./platform-runs.ts";

/** An action that is not yet carried out on the platform, with the current state of the action's instance. */
interface OpenAction {
  id: string;
  verb: string;
  actor: string;
  reason: string;
  target: string;
  at: number;
  attempts: number;
  instance_id: string;
  from_step: string | null;
  /** The number of the run that a retry, an undo, a cancel or a restart began; null for other verbs. */
  begun_run: number | null;
  /** 1 for the retry of an instance that is undone or was stopped; null for other verbs. */
  undone: number | null;
  /** 1 for the retry or undo of an instance that an operator stopped without undoing its effects; null for other actions. */
  stopped: number | null;
  /** The time when the action's run began on the platform (`noteRunBegun`). Null before this time, and for an action without a run. */
  begun_at: number | null;
  run: number;
  status: InstanceStatus;
  workflow: string;
  queue: string | null;
  envelope: string;
  undo: string | null;
  version: number;
  /** Null for an instance that has its slot, or needs none. */
  slot_turn: number | null;
}

/** `not yet`: the former run has not ended, so the action is tried again soon. Undefined: the action is carried out, or needs no call. */
type CarriedOut = "not yet" | undefined;

const ROWS = 50;
/** Milliseconds. The platform ends a run moments after its last commit, and a run that may execute an inline step 2 s after the action. */
const SOON_MS = [0, 50, 100, 200, 400, 800, 600];

type Tried = { action: OpenAction; failed: string | null; soon: boolean };

/** Carries out one open action directly after the action's commit. After a failure, the keeper tries the action again. */
export async function applyAction(env: EngineEnv, id: string): Promise<void> {
  if ((await query(env.DB, takeActions(sql`a.id = ${id}`, leftBy(undefined)))).length === 0) return;
  for (const pauseMs of SOON_MS) {
    if (pauseMs > 0) await scheduler.wait(pauseMs);
    const [action] = await query<OpenAction>(env.DB, selectOpen(sql`a.id = ${id}`));
    if (!action) return;
    const tried = await tryOnce(env, action);
    if (tried.soon && pauseMs !== SOON_MS.at(-1)) continue;
    return recordTries(env, [tried]);
  }
}

/** Carries out actions that a crash or a platform error left open. Each has its own delay, so that none delays another. */
export async function applyOpenActions(env: EngineEnv, { workflows }: Elsewhere): Promise<Portion> {
  const taken = await query<{ id: string }>(env.DB, takeActions(sql`a.due_at <= ${now} ORDER BY a.due_at LIMIT ${ROWS}`, workflows));
  if (taken.length === 0) return { did: 0, more: false };
  const actions = await query<OpenAction>(env.DB, selectOpen(sql`a.id IN ${among(taken.map(({ id }) => id))}`));
  const tried = await Promise.all(actions.map((action) => tryOnce(env, action)));
  await recordTries(env, tried);
  return { did: tried.filter(({ failed }) => failed === null).length, more: taken.length === ROWS };
}

function selectOpen(which: Statement): Statement {
  return sql`
    SELECT a.id, a.verb, a.actor, a.reason, a.target, a.at, a.attempts, a.instance_id, a.detail->>'from' AS from_step,
      a.detail->>'run' AS begun_run,
      a.detail->>'undone' AS undone, a.detail->>'stopped' AS stopped, a.restarted_at AS begun_at,
      i.run, i.status, i.workflow, i.queue, i.envelope, i.undo, i.version, i.slot_turn
    FROM millrace_actions a CROSS JOIN millrace_instances i ON i.id = a.instance_id
    WHERE a.applied_at IS NULL AND ${which}`;
}

async function tryOnce(env: EngineEnv, action: OpenAction): Promise<Tried> {
  const { id, instance_id, verb } = action;
  try {
    const carryOut = CARRY_OUT[verb];
    if (!carryOut)
      throw new MillraceError("config_invalid", `The action "${verb}" has no implementation: add it to operate/carry-out/carry-out.ts.`);
    const soon = (await carryOut(env, action)) === "not yet";
    return { action, failed: soon ? "The platform has not yet ended the failed run." : null, soon };
  } catch (error) {
    if (isSimulatedDeath(error)) throw error;
    logLine("warn", { log: "action", action_id: id, instance_id, verb, error: messageOf(error) });
    return { action, failed: beginning(messageOf(error), 500), soon: false };
  }
}

async function recordTries(env: EngineEnv, tried: readonly Tried[]): Promise<void> {
  if (tried.length === 0) return;
  const kept = tried.filter(({ failed }) => failed === null).map(({ action }) => action.id);
  const open = tried.filter(({ failed }) => failed !== null);
  const failures = open.map(({ action, failed, soon }) => {
    const message = `The recorded action ${action.verb} could not be carried out: ${failed}`;
    const failure: Failure = { step: "", code: "unavailable", message, attempts: 0 };
    const cause = causeOfFailure(action.workflow, failure);
    return { id: action.id, soon, instance: action.instance_id, run: action.begun_run, why: failed, failure, cause };
  });
  await atomically(env.DB, [noteKept(kept), ...(open.length > 0 ? [putOff(failures), giveUpActions(failures), giveUpRuns(failures)] : [])]);
}

/** The tries, 10 s apart, after which a run is terminated that the platform should have ended with its last commit. */
const TRIES_UNTIL_ENDED = 5;

/** Carries out an action on the platform. The call may be repeated, and throws the platform's error. */
type CarryOut = (env: EngineEnv, action: OpenAction) => Promise<CarriedOut>;

const CARRY_OUT: Readonly<Record<string, CarryOut>> = {
  undo: carryOutUndo,
  retry: carryOutRetry,
  skip_step: carryOutRetry,
  cancel: carryOutCancel,
  close: carryOutClose,
  restart: carryOutRestart,
  pause: carryOutPause,
  resume: carryOutResume,
  approve: carryOutDecision,
  reject_approval: carryOutDecision,
  confirm: carryOutResolution,
  reject: carryOutResolution,
  retry_anyway: carryOutResolution,
};

/**
 * Begins an undo after the former run has ended on the platform. If the run continues although its instance has ended in the database, the
 * run is terminated as soon as no attempt is running.
 */
async function carryOutUndo(env: EngineEnv, action: OpenAction): Promise<CarriedOut> {
  const { instance, status } = await reached(env, action.workflow, action.instance_id);
  if (instance && !ENDED.has(status)) {
    if (action.attempts < TRIES_UNTIL_ENDED) return notYet(env, instance, action);
    if ((await endRun(env, action)) === "not yet") return "not yet";
  }
  if (isToNoteCutOff(status, action)) await keepCutOff(env, action);
  await beginUndo(env, action);
}

/** From this write on, no commit of the former run is recorded, because the undo would not find it. */
async function beginUndo(env: EngineEnv, action: OpenAction): Promise<void> {
  await atomically(env.DB, [noteRunBegun(action.id)]);
  await existing(env, action);
}

/** Terminates a run that continues although its instance has ended in the database, and releases its lane. */
async function carryOutClose(env: EngineEnv, action: OpenAction): Promise<CarriedOut> {
  if ((await endRun(env, action)) === "not yet") return "not yet";
  const { queue, instance_id: id } = action;
  // A deployment that has removed its lanes has no binding for lanes.
  if (queue !== null && laneIn(queue) !== undefined && objectsIn(env, "LANES"))
    await tellEnded(env, queue, envelopeOf(action), id, { status: "skipped", error: null, run: 0 });
}

/**
 * Ends the cancelled run, then begins the undo. An instance unknown to the platform is also created, so that a late copy of its message
 * cannot start the instance. The replay of the created instance ends at once.
 */
async function carryOutCancel(env: EngineEnv, action: OpenAction): Promise<CarriedOut> {
  // If a later run exists, the action that began the later run ends this run.
  if (action.run !== action.begun_run) return;
  const end = await endRun(env, action);
  if (end === "unknown") await existing(env, { ...action, undo: null });
  if (end !== "ended") return "not yet";
  await crashPoint("platform run stopped, not restarted", action.instance_id);
  await keepCutOff(env, action);
  if (action.undo === action.id) await beginUndo(env, action);
  else await stopChildren(env, action);
}

/** Cancels the children of a cancelled child, and children that were accepted after the cancel, if the cancel has no undo. */
async function stopChildren(env: EngineEnv, action: OpenAction): Promise<void> {
  const { id: actionId, instance_id: id } = action;
  const { tenant_id: tenantId } = envelopeOf(action);
  await atomically(env.DB, [auditDerivedCancels(id, actionId, false), cancelChildren({ id, tenantId }, actionId, false)]);
}

async function carryOutRestart(env: EngineEnv, action: OpenAction): Promise<CarriedOut> {
  if (action.run !== action.begun_run || ENDED.has(action.status)) return;
  if (action.begun_at !== null) {
    const { instance, status } = await existing(env, action);
    if (instance && !ENDED.has(status)) await sendStored(env, instance, action);
    return;
  }
  const end = await endRun(env, action);
  if (end === "not yet") return "not yet";
  await crashPoint("platform run stopped, not restarted", action.instance_id);
  await keepCutOff(env, action);
  // An attempt may have ended with an unknown outcome since the restart was requested.
  await atomically(env.DB, [markRestarted(action.instance_id, action.run), markInDoubt(action.instance_id)]);
  const { instance, status } = await existing(env, action);
  const [now] = await query<{ status: InstanceStatus }>(
    env.DB,
    sql`SELECT status FROM millrace_instances WHERE id = ${action.instance_id}`,
  );
  // A replay that had not yet read the request for the restart may have completed the instance. If the replay was terminated before it
  // returned, the restarted replay gives the platform the result of the complete instance, without a further effect.
  if (now?.status === "complete" && status === "complete") return;
  if (!instance) return;
  await restartRun(env, instance, { ...action, from_step: null });
  await sendStored(env, instance, action);
}

/**
 * Creates an instance that is unknown to the platform, so that a later message cannot start the instance. The first act of the created
 * instance is to read its row, which is paused. An instance queued in a lane is not created, because such an instance cannot be paused. An
 * instance without its slot is not created, because its message starts it only with a slot, and a resume would start it without one.
 */
async function carryOutPause(env: EngineEnv, action: OpenAction): Promise<undefined> {
  if (action.status === "paused" && action.slot_turn === null) await existing(env, action);
}

/**
 * Wakes a run that waits for its resume. If the instance never started, its queue, its lane or the keeper starts the instance. The action
 * of a cancel ends a cancelled instance.
 */
async function carryOutResume(env: EngineEnv, action: OpenAction): Promise<CarriedOut> {
  if (ENDED.has(action.status) || action.status === "paused" || action.undo !== null) return;
  const { instance, status } = UNSEEN.has(action.status) ? await onPlatform(env, action) : await existing(env, action);
  if (instance && !ENDED.has(status)) await within(instance.sendEvent({ type: resumeEventType(action.instance_id), payload: {} }));
}

async function carryOutRetry(env: EngineEnv, action: OpenAction): Promise<CarriedOut> {
  // The run that this retry began, or a later run, has ended, so the instance was already restarted.
  if (ENDED.has(action.status) || action.run !== (action.begun_run ?? action.run)) return;
  const { instance, status } = await existing(env, action);
  if (!instance) return;
  const ended = ENDED.has(status);
  if (action.begun_at === null) {
    // A stopped run did not commit its end and may still sleep or wait, so the run is terminated.
    if (!ended && action.undone !== 1 && action.attempts < TRIES_UNTIL_ENDED) return notYet(env, instance, action);
    if (!ended && (await endRun(env, action)) === "not yet") return "not yet";
    if (isToNoteCutOff(status, action)) await keepCutOff(env, action);
    await restartRun(env, instance, action);
  } else if (ended) return;
  await sendStored(env, instance, action);
}

/**
 * True if steps that were cut off by the end of the run must be recorded. A run that ended by itself cut off no step. For a stopped run the
 * result is true even if the run has ended, because the new run may have begun before the stop was carried out.
 */
function isToNoteCutOff(status: PlatformAnswer["status"], { stopped }: OpenAction): boolean {
  return stopped === 1 || !ENDED.has(status);
}

async function notYet(env: EngineEnv, instance: WorkflowInstance, { attempts }: OpenAction): Promise<CarriedOut> {
  await wakeRun(env, instance, attempts);
  return "not yet";
}

async function restartRun(env: EngineEnv, instance: WorkflowInstance, action: OpenAction): Promise<void> {
  const behind = action.undo === null ? await findSetBack(env, { id: action.instance_id, workflow: action.workflow }) : undefined;
  if (behind) await atomically(env.DB, [noteLost(action.instance_id, behind.lost)]);
  // A restored database may lack the rows of results that the platform has cached. A run that starts from the beginning writes these rows
  // again.
  const name = behind ? null : action.from_step;
  await restartFrom(instance, name ? { name } : undefined);
  await atomically(env.DB, [noteRunBegun(action.id)]);
  await crashPoint("platform run restarted, not recorded");
}

function carryOutDecision(env: EngineEnv, action: OpenAction): Promise<CarriedOut> {
  const answer: Approval = { approved: action.verb === "approve", by: action.actor, reason: action.reason };
  return carryOutAnswer(env, action, answerEventType(action.target), answer);
}

function carryOutResolution(env: EngineEnv, action: OpenAction): Promise<CarriedOut> {
  return carryOutAnswer(env, action, doubtEventType(action.target), { resolved: action.verb });
}

/** Sends an event to an instance that waits for the event. If the instance has ended, a later retry sends the event after the restart. */
async function carryOutAnswer(env: EngineEnv, action: OpenAction, type: string, payload: unknown): Promise<undefined> {
  // Only a retry creates an ended instance that the platform has removed. An undo that has not begun reads the answer from the rows.
  const { instance, status } =
    ENDED.has(action.status) || action.undo !== null ? await onPlatform(env, action) : await existing(env, action);
  if (instance && !ENDED.has(status)) await within(instance.sendEvent({ type, payload }));
}

/** The platform's handle of the instance or of its undo. */
function onPlatform(env: EngineEnv, { workflow, instance_id, undo }: OpenAction): Promise<PlatformAnswer> {
  return reached(env, workflow, platformId(instance_id, undo));
}

/** As `onPlatform`. An instance that the platform has removed is created again, and its replay reads the recorded effects. */
async function existing(env: EngineEnv, action: OpenAction): Promise<PlatformAnswer> {
  const answer = await onPlatform(env, action);
  if (answer.status !== "unknown") return answer;
  const { workflow, instance_id: id, undo } = action;
  const version = UNSEEN.has(action.status) ? undefined : action.version;
  const { failed } = await startInstances(env, [{ id, workflow, envelope: envelopeOf(action), undo, version }], "again");
  for (const why of failed.values()) throw new MillraceError("unavailable", why);
  return answer;
}

const envelopeOf = ({ envelope }: OpenAction) => JSON.parse(envelope) as Envelope;

/**
 * Sends a restarted run its recorded answers, resolved outcomes and events. After a restart the platform still shows the waiting steps, but
 * has lost the events that were sent to these steps. Each step has a different event type, so a second copy of an event has no effect.
 */
async function sendStored(env: EngineEnv, instance: WorkflowInstance, { instance_id, undo }: OpenAction): Promise<void> {
  for (const { step, item, generation, state } of await query<ResolvedEntry>(env.DB, selectResolved(instance_id))) {
    const type = doubtEventType(formatEntryKey({ instanceId: instance_id, step, item, generation }));
    await within(instance.sendEvent({ type, payload: { resolved: state } }));
  }
  // An undo does not wait for answers or events, because the undo reads answers and events from the rows.
  if (undo !== null) return;
  await tellAnswers(env, instance, instance_id);
  await tellAgain(env, [instance_id]);
}
