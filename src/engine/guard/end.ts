import { crashPoint } from "../contract/crash-points.ts";
import { messageOf } from "../contract/errors.ts";
import type { End } from "../recorder/inbox.ts";
import type { Failure } from "./failure.ts";
import type { Run } from "./run.ts";

/** Tells how a run ended, under that run's own number. Never throws: an end that nobody hears of now is found by the keeper, which asks the platform. */
export async function tellEnd(run: Run, status: End["status"], failure: Failure | null = null): Promise<void> {
  try {
    const error = failure && JSON.stringify(failure);
    await run.recorder.finish({ id: run.instanceId, run: await run.number(), status, error });
  } catch (error) {
    console.warn(JSON.stringify({ log: "end", instance_id: run.instanceId, status, error: messageOf(error) }));
  }
  await crashPoint("W33 end told, pass not over", run.instanceId);
}
