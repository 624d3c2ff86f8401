import { crashPoint } from "../contract/crash-points.ts";
import { messageOf } from "../contract/errors.ts";
import { logEnd, loggedInstance } from "../observe/instances.ts";
import type { End } from "../store/instances/run.ts";
import type { Failure } from "../pass/failure.ts";
import type { Platform } from "./platform.ts";
import type { Run } from "../pass/pass.ts";

/** A run that was asked for less than that ago is looked at within half a minute (`pauseMs`). */
const YOUNG_MS = 60_000;

/**
 * Tells how a run ended, under that run's own number. Never throws: an end that nobody hears of now is found by the keeper, which asks the
 * platform. It does so soon, except for a run that has written nothing since it waited, or that has been open for long: for those the
 * keeper has minutes, or a day. So their end is told until it is written.
 */
export async function tellEnd(run: Run, platform: Platform, status: End["status"], failure: Failure | null = null): Promise<void> {
  try {
    const error = failure && JSON.stringify(failure);
    const number = await run.which.number();
    const end = { id: run.instanceId, run: number, status, error, left: run.leftTo(number + 1, failure) };
    if (run.isKnownToRun && Date.now() - Date.parse(run.envelope.created_at) < YOUNG_MS) await run.recorder.finish(end);
    else await platform.reading({ label: "end" }, () => run.recorder.finish(end, true), "always");
    logEnd(loggedInstance(run), status, failure);
  } catch (error) {
    console.warn(JSON.stringify({ log: "end", ...loggedInstance(run), status, error: messageOf(error) }));
  }
  await crashPoint("W33 end told, pass not over", run.instanceId);
}
