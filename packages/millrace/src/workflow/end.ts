import { crashPoint } from "../contract/crash-points.ts";
import { messageOf } from "../contract/errors.ts";
import { shownCode } from "../contract/hide.ts";
import { keeperObject } from "../contract/keeper-stub.ts";
import { logLine } from "../contract/log-line.ts";
import { laneIn } from "../contract/queue.ts";
import { within } from "../contract/within.ts";
import { type RunEnd, tellTurnOver } from "../lanes/turns-stub.ts";
import { noteEnd } from "../observe/ends.ts";
import { loggedInstance } from "../observe/log/instances.ts";
import { causeOfFailure, type Failure } from "../pass/failure.ts";
import type { Pass } from "../pass/pass.ts";
import type { End } from "../store/instances/run.ts";
import type { Platform } from "./platform.ts";

/** A run that was asked for less than that ago is looked at within half a minute (`pauseMs`). */
const YOUNG_MS = 60_000;

/**
 * Tells how a run ended, under that run's own number. Never throws: an end that nobody hears of now is found by the keeper, which asks the
 * platform. It does so soon, except for a run that has written nothing since it waited, or that has been open for long: for those the
 * keeper has minutes, or a day. So their end is told until it is written.
 */
export async function tellEnd(pass: Pass, platform: Platform, status: End["status"], why: Failure | null = null): Promise<void> {
  try {
    // Whoever reads no message reads its code: callbacks, alerts, counts.
    const failure = why && { ...why, code: shownCode(pass.hide, why.code) };
    const error = failure && JSON.stringify(failure);
    const number = await pass.run.number();
    const cause = failure === null ? undefined : causeOfFailure(pass.workflow, failure);
    const end = {
      id: pass.instanceId,
      run: number,
      status,
      error,
      cause,
      left: pass.leftTo(number + 1, failure),
      spent: pass.spending.of(number, pass.undoes),
    };
    const told = tellLane(pass, { status, error: failure && `${failure.code}: ${pass.hide(failure.message)}` });
    const calls = pass.envelope.callback_url !== undefined;
    if (pass.inbox.isKnownToRun && Date.now() - Date.parse(pass.envelope.created_at) < YOUNG_MS) await pass.recorder.finish(end, calls);
    else await platform.reading({ label: "end" }, () => pass.recorder.finish(end, true), "always");
    await told;
    noteEnd(pass, number, status, failure && { ...failure, cause });
    if (calls) await callBack(pass);
  } catch (error) {
    logLine("warn", { log: "end", ...loggedInstance(pass), status, error: messageOf(error) });
  }
  await crashPoint("W33 end told, pass not over", pass.instanceId);
}

/** Longest wait of a run's end for the keeper: what it is not asked for, it finds in its round. */
const CALL_LIMIT_MS = 2000;

/** Has the address called at once that is to hear of the end, which is written. Never throws: the keeper finds what is owed. */
async function callBack({ env, instanceId }: Pass): Promise<void> {
  try {
    await crashPoint("ended, callback not kept", instanceId);
    await within(keeperObject(env).callBack(), CALL_LIMIT_MS);
  } catch (error) {
    logLine("warn", { log: "callback", instance_id: instanceId, error: messageOf(error) });
  }
}

/** Tells the lane that gave the run its turn, beside what is written of its end. Never throws. */
async function tellLane({ env, queue, envelope, instanceId }: Pass, end: RunEnd): Promise<void> {
  if (envelope.kind !== "command" || laneIn(queue) === undefined) return;
  const untold = await crashPoint("L12 ended, its lane not told", instanceId).catch(() => true);
  if (!untold) await tellTurnOver(env, queue, envelope, instanceId, end);
}
