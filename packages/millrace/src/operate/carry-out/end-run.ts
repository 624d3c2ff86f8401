import type { EngineEnv } from "../../contract/bindings.ts";
import { MillraceError, messageOf } from "../../contract/errors.ts";
import { within } from "../../contract/within.ts";
import { type StepRecord, wholeHistoryOf } from "../../inspect/history.ts";
import { askPlatform, nudge } from "../../intake/platform.ts";
import { isOfBefore } from "../../pass/fresh.ts";
import { IN_PASS_MS } from "../../pass/lean.ts";
import { HEARD_FOR_MS } from "../../pass/which-run.ts";
import { isLocal } from "../../store/d1/local.ts";
import { query } from "../../store/d1/retry.ts";
import { selectLean } from "../../store/inbox/read.ts";
import { ENDED } from "../../store/instances/status.ts";

/** Whose run is to end, since when a person wants that, and how often it was tried. */
interface Ending {
  readonly instance_id: string;
  readonly workflow: string;
  readonly at: number;
  readonly attempts: number;
}

/** A pass may begin an effect for so long after a person has stopped its run: by what it heard just before, and what clocks differ by. */
const LAST_BEGINNING_MS = HEARD_FOR_MS + 300;

/** Tries, ten seconds apart, until an attempt is given up on: longer than the platform lets one take. */
const TRIES_WHILE_AT_WORK = 70;

/**
 * Ends the run of an instance on the platform, whose row says already that it begins nothing any more. A pass that is at work hears that
 * and ends itself, behind what it has under way; one that sleeps, waits, reads or is between two tries is ended here, once no attempt at an
 * effect is under way: what that did is recorded first. Errors: `unavailable` when the platform does not answer.
 */
export async function endRun(
  env: EngineEnv,
  { instance_id: id, workflow, at, attempts }: Ending,
): Promise<"ended" | "unknown" | "not yet"> {
  const { instance, status, error } = await askPlatform(env, workflow, id);
  if (status === "unreachable") throw new MillraceError("unavailable", error ?? "The platform did not answer.");
  if (!instance) return "unknown";
  if (ENDED.has(status)) return "ended";
  const { steps, truncated } = await wholeHistoryOf(env, { id, workflow });
  const isAlone = await isLocal(env.DB);
  if (attempts < TRIES_WHILE_AT_WORK && (isAtWork(steps, isAlone) || mayBeginStill(steps, at) || (await mayTakeStep(env, id, steps, at)))) {
    await wakeStanding(env, instance, attempts);
    return "not yet";
  }
  // Of a long history only the beginning is known: it is given the time to end itself.
  if (truncated && attempts < 2) return "not yet";
  await terminate(instance);
  return "ended";
}

/** The platform's words for a run that has ended. */
const HAS_ENDED = /cannot_terminate|finite state/i;

/** Ends a run on the platform. One that has ended by itself since somebody looked is as good. */
export async function terminate(instance: WorkflowInstance): Promise<void> {
  try {
    await within(instance.terminate());
  } catch (error) {
    if (!HAS_ENDED.test(messageOf(error))) throw error;
  }
}

/**
 * Wakes a run that has not ended as it should have: locally, a process that was killed has left it where it stood. Made anew, its pass
 * hears what a person wants of it since. The first try is left to itself: mostly the run is in its last moments.
 */
export async function wakeStanding(env: EngineEnv, instance: WorkflowInstance, attempts: number): Promise<void> {
  if (attempts > 0 && (await isLocal(env.DB))) await nudge(instance);
}

/**
 * Where there is but one process (`isAlone`), an attempt that began before it has died with the one before, whatever its history says. One
 * that only reads does nothing that would have to be recorded first.
 */
function isAtWork(steps: readonly StepRecord[], isAlone: boolean): boolean {
  const beganAt = ({ attempts, startedAt }: StepRecord) => attempts.at(-1)?.startedAt ?? startedAt ?? 0;
  return steps.some((step) => step.type === "do" && step.state === "running" && !step.reads && !(isAlone && isOfBefore(beganAt(step))));
}

/**
 * What a pass takes itself the platform does not know: until it has ended, or is a step of the platform's. The first such step of a run has
 * recorded nothing yet.
 */
async function mayTakeStep(env: EngineEnv, id: string, steps: readonly StepRecord[], at: number): Promise<boolean> {
  if (at <= Date.now() - LAST_BEGINNING_MS - IN_PASS_MS) return false;
  return steps.length === 0 || (await query(env.DB, selectLean(id))).length > 0;
}

/** A pass that did something moments ago may not have heard of its row since. */
function mayBeginStill(steps: readonly StepRecord[], at: number): boolean {
  const since = Date.now() - LAST_BEGINNING_MS;
  const isLate = (time: number | null) => (time ?? 0) > since;
  const isRecent = ({ startedAt, endedAt, attempts }: StepRecord) =>
    isLate(startedAt) || isLate(endedAt) || attempts.some((one) => isLate(one.startedAt) || isLate(one.endedAt));
  return at > since && (steps.length === 0 || steps.some(isRecent));
}
