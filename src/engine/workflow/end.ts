import { crashPoint } from "../contract/crash-points.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { laneIn } from "../contract/queue.ts";
import { type RunEnd, tellTurnOver } from "../lanes/turns-stub.ts";
import { noteEnd } from "../observe/ends.ts";
import { loggedInstance } from "../observe/log/instances.ts";
import type { Failure } from "../pass/failure.ts";
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
export async function tellEnd(pass: Pass, platform: Platform, status: End["status"], failure: Failure | null = null): Promise<void> {
  try {
    const error = failure && JSON.stringify(failure);
    const number = await pass.run.number();
    const end = {
      id: pass.instanceId,
      run: number,
      status,
      error,
      left: pass.leftTo(number + 1, failure),
      spent: pass.spending.of(number, pass.undoes),
    };
    const told = tellLane(pass, { status, error: failure && `${failure.code}: ${failure.message}` });
    if (pass.inbox.isKnownToRun && Date.now() - Date.parse(pass.envelope.created_at) < YOUNG_MS) await pass.recorder.finish(end);
    else await platform.reading({ label: "end" }, () => pass.recorder.finish(end, true), "always");
    await told;
    noteEnd(pass, number, status, failure);
  } catch (error) {
    logLine("warn", { log: "end", ...loggedInstance(pass), status, error: messageOf(error) });
  }
  await crashPoint("W33 end told, pass not over", pass.instanceId);
}

/** Tells the lane that gave the run its turn, beside what is written of its end. Never throws. */
async function tellLane({ env, queue, envelope, instanceId }: Pass, end: RunEnd): Promise<void> {
  if (envelope.kind !== "command" || laneIn(queue) === undefined) return;
  const untold = await crashPoint("L12 ended, its lane not told", instanceId).catch(() => true);
  if (!untold) await tellTurnOver(env, queue, envelope, instanceId, end);
}
