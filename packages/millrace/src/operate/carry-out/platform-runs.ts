import type { EngineEnv } from "../../contract/bindings.ts";
import { isDefiniteRefusal, MillraceError, messageOf } from "../../contract/errors.ts";
import { platformId } from "../../contract/ids.ts";
import { sql } from "../../contract/sql.ts";
import { codeLabelOf } from "../../contract/step-names.ts";
import { within } from "../../contract/within.ts";
import { isDoubtEvent } from "../../guard/doubt.ts";
import { type AttemptError, type StepRecord, wholeHistoryOf } from "../../inspect/history.ts";
import { askPlatform, nudge, type PlatformAnswer } from "../../intake/platform.ts";
import { isOfBefore } from "../../replay/fresh.ts";
import { INLINE_MS } from "../../replay/inline.ts";
import { STATUS_VALID_MS } from "../../replay/run-state.ts";
import { noteCutOff } from "../../store/actions.ts";
import { atomically, isLocal, query } from "../../store/d1/retry.ts";
import { selectInline } from "../../store/inbox/read.ts";
import { lookAgain } from "../../store/instances/look.ts";
import { ENDED } from "../../store/instances/status.ts";
import { resumeResolved } from "../../store/instances/wait.ts";

/** Asks the platform for a run. Errors: `unavailable` if the platform does not answer. */
export async function reached(env: EngineEnv, workflow: string, id: string): Promise<PlatformAnswer> {
  const answer = await askPlatform(env, workflow, id);
  if (answer.status === "unreachable") throw new MillraceError("unavailable", answer.error ?? "The platform did not answer.");
  return answer;
}

/** An operator's action on a run. `at` is its time, `attempts` the number of tries so far. */
interface ActionOnRun {
  readonly id: string;
  readonly instance_id: string;
  readonly workflow: string;
  readonly at: number;
  readonly attempts: number;
}

/**
 * Maximum time in milliseconds after the stop of a run in which a replay may begin an effect. The time is the maximum age of the row that
 * the replay has read, plus clock skew.
 */
const LAST_BEGINNING_MS = STATUS_VALID_MS + 300;

/**
 * Number of tries, 10 s apart, before a running attempt is terminated. All tries together take longer than the platform's limit for one
 * attempt.
 */
const TRIES_WHILE_AT_WORK = 70;

/**
 * Terminates a run that is stopped in its instance's row. A running replay reads the row and ends itself after its current step. This
 * function terminates a run that sleeps, waits, reads or is between two attempts. Before the termination, each running attempt of an effect
 * must end and be recorded. Errors: `unavailable` if the platform does not answer.
 */
export async function endRun(
  env: EngineEnv,
  { instance_id: id, workflow, at, attempts }: ActionOnRun,
): Promise<"ended" | "unknown" | "not yet"> {
  const { instance, status } = await reached(env, workflow, id);
  if (!instance) return "unknown";
  if (ENDED.has(status)) return "ended";
  const { steps, truncated } = await wholeHistoryOf(env, { id, workflow });
  const isAlone = await isLocal(env.DB);
  if (attempts < TRIES_WHILE_AT_WORK && (isAtWork(steps, isAlone) || mayBeginStill(steps, at) || (await mayTakeStep(env, id, steps, at)))) {
    await wakeRun(env, instance, attempts);
    return "not yet";
  }
  // If the history is truncated, later steps are unknown, so the run gets time to end itself.
  if (truncated && attempts < 2) return "not yet";
  await terminate(instance);
  return "ended";
}

const HAS_ENDED = /cannot_terminate|finite state/i;

/** Terminates a run on the platform. The call also succeeds if the run has ended meanwhile. */
export async function terminate(instance: WorkflowInstance): Promise<void> {
  try {
    await within(instance.terminate());
  } catch (error) {
    if (!HAS_ENDED.test(messageOf(error))) throw error;
  }
}

/**
 * Wakes a run that should have ended. In local development, a run whose process was killed remains at its last step. The wake-up begins a
 * new replay, which reads the row. The first try does nothing, because most runs are about to end.
 */
export async function wakeRun(env: EngineEnv, instance: WorkflowInstance, attempts: number): Promise<void> {
  if (attempts > 0 && (await isLocal(env.DB))) await nudge(instance);
}

/**
 * True if an attempt of an effect is running. In a single process (`isAlone`), an attempt that began before the process started has died,
 * even if the history shows it as running. Attempts of reads do not count, because a read has no result to record.
 */
function isAtWork(steps: readonly StepRecord[], isAlone: boolean): boolean {
  const beganAt = ({ attempts, started_at }: StepRecord) => attempts.at(-1)?.started_at ?? started_at ?? 0;
  return steps.some((step) => step.type === "do" && step.state === "running" && !step.reads && !(isAlone && isOfBefore(beganAt(step))));
}

/** True if the replay may execute an inline step, which the platform does not know. The first inline step of a run has no record yet. */
async function mayTakeStep(env: EngineEnv, id: string, steps: readonly StepRecord[], at: number): Promise<boolean> {
  if (at <= Date.now() - LAST_BEGINNING_MS - INLINE_MS) return false;
  return steps.length === 0 || (await query(env.DB, selectInline(id))).length > 0;
}

/** True if a replay was active moments ago. Such a replay may not have read the row of the stopped run, and may begin a step. */
function mayBeginStill(steps: readonly StepRecord[], at: number): boolean {
  const since = Date.now() - LAST_BEGINNING_MS;
  const isRecent = (step: StepRecord) =>
    [step, ...step.attempts].some((one) => (one.started_at ?? 0) > since || (one.ended_at ?? 0) > since);
  return at > since && (steps.length === 0 || steps.some(isRecent));
}

/**
 * Records the steps that a cancel or a restart cut off, for a later undo. These are steps with a running attempt, or with a failed attempt
 * of unknown outcome. A history that the platform removed contains no such step.
 */
export async function keepCutOff(env: EngineEnv, { id, instance_id, workflow }: ActionOnRun): Promise<void> {
  const { steps } = await wholeHistoryOf(env, { id: instance_id, workflow });
  const labels = new Set(steps.filter(isCutOff).map(codeLabelOf));
  if (labels.size > 0) await atomically(env.DB, [noteCutOff(id, [...labels])]);
}

/**
 * If a stop or a pause deferred the next attempt of a step, the platform shows this step as complete. If the step had an effect, the undo
 * uses the inbox entry of the step instead.
 */
function isCutOff({ type, state, attempts, reads }: StepRecord): boolean {
  if (type !== "do" || reads || state === "errored") return false;
  return (state === "running" && attempts.length > 0) || attempts.some(({ error }) => error !== null && !isRefusal(error));
}

function isRefusal({ code, message }: AttemptError): boolean {
  return code !== null && isDefiniteRefusal(new MillraceError(code, message));
}

/**
 * Continues an instance that is `in_doubt` although no effect is in doubt. A run that waits for a resolution is woken and reads the rows.
 * The run then continues, or marks an effect without an entry as in doubt again. If the run waits for no resolution, its row is set to
 * running. The keeper ends a run that is unknown to the platform, because a new run would repeat the effect. Errors: `unavailable` if the
 * platform does not answer.
 */
export async function wakeFromDoubt(env: EngineEnv, instanceId: string): Promise<void> {
  const [row] = await query<{ workflow: string; undo: string | null }>(
    env.DB,
    sql`SELECT workflow, undo FROM millrace_instances WHERE id = ${instanceId} AND status = 'in_doubt'`,
  );
  if (!row) return;
  const id = platformId(instanceId, row.undo);
  const { instance } = await reached(env, row.workflow, id);
  if (instance === null) return void (await query(env.DB, lookAgain([instanceId])));
  const { steps, truncated } = await wholeHistoryOf(env, { id, workflow: row.workflow });
  const waits = steps.flatMap(({ state, event_type: type }) => (state === "waiting" && type && isDoubtEvent(type) ? [type] : []));
  for (const type of waits) await within(instance.sendEvent({ type, payload: {} }));
  if (waits.length > 0) return;
  if (truncated || steps.length === 0) {
    throw new MillraceError("unavailable", "The platform does not report the event that the run waits for: the keeper checks again.");
  }
  await query(env.DB, resumeResolved(instanceId));
}
