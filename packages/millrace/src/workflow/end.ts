import { crashPoint } from "../contract/crash-points.ts";
import { messageOf } from "../contract/errors.ts";
import { hasFlow } from "../contract/flow.ts";
import { shownCode } from "../contract/hide.ts";
import { keeperObject } from "../contract/keeper-stub.ts";
import { logLine } from "../contract/log-line.ts";
import { laneIn } from "../contract/queue.ts";
import { within } from "../contract/within.ts";
import { packChildResult } from "../guard/result.ts";
import { type RunEnd, tellTurnOver } from "../lanes/turns-stub.ts";
import { noteEnd } from "../observe/attempts.ts";
import { loggedInstance } from "../observe/log/instances.ts";
import { causeOfFailure, type Failure } from "../pass/failure.ts";
import type { Pass } from "../pass/pass.ts";
import type { End } from "../store/instances/run.ts";
import type { Platform } from "./platform.ts";

/** The keeper checks a run that is younger than this within 30 s (`pauseMs`). */
const YOUNG_MS = 60_000;

/**
 * Reports how a run ended, with the number of that run. The function never throws, because the keeper finds an unreported end when the
 * keeper polls the platform. The keeper may poll a long run only once a day, so the function retries until the end is written.
 */
export async function tellEnd(
  pass: Pass,
  platform: Platform,
  status: End["status"],
  { why = null, kept }: { why?: Failure | null; kept?: unknown } = {},
): Promise<void> {
  pass.progress.flush();
  try {
    // Callbacks, alerts and metrics show the error code without the error's message, so values in the code are redacted.
    const failure = why && { ...why, code: shownCode(pass.hide, why.code) };
    const error = failure && JSON.stringify(failure);
    const number = await pass.run.number();
    const cause = failure === null ? undefined : causeOfFailure(pass.workflow, failure);
    const { instanceId: id, envelope } = pass;
    const { tenant_id: tenantId, parent } = envelope;
    const pack = async () => packChildResult(pass.env.PAYLOADS, { tenantId, parent: parent ?? "", id, run: number }, kept);
    const isToPack = parent !== undefined && status === "complete";
    const end = {
      id,
      run: number,
      status,
      error,
      cause,
      left: pass.leftTo(number + 1, failure),
      spent: pass.spending.of(number, pass.undoes),
      result: isToPack ? await platform.reading({ label: "end" }, pack, "always") : undefined,
    };
    const told = tellLane(pass, { status, error: failure && `${failure.code}: ${pass.hide(failure.message)}` });
    const calls = pass.envelope.callback_url !== undefined;
    // The keeper does not know the tags, so the write of an end with tags is not left to the keeper.
    const { newTags } = pass;
    const finish = (certain: boolean) => pass.recorder.finish(end, certain || newTags.length > 0, newTags, parent, hasFlow(pass.workflow));
    if (pass.inbox.isKnownToRun && Date.now() - Date.parse(pass.envelope.created_at) < YOUNG_MS) await finish(calls);
    else await platform.reading({ label: "end" }, () => finish(true), "always");
    await told;
    noteEnd(pass, number, status, failure && { ...failure, cause });
    if (calls) await callBack(pass);
  } catch (error) {
    logLine("warn", { log: "end", ...loggedInstance(pass), status, error: messageOf(error) });
  }
  await crashPoint("W33 end recorded, replay not over", pass.instanceId);
}

const CALL_LIMIT_MS = 2000;

/** Asks the keeper to send the callback at once. The function never throws, because the keeper finds pending callbacks in any case. */
async function callBack({ env, instanceId }: Pass): Promise<void> {
  try {
    await crashPoint("ended, callback not stored", instanceId);
    await within(keeperObject(env).callBack(), CALL_LIMIT_MS);
  } catch (error) {
    logLine("warn", { log: "callback", instance_id: instanceId, error: messageOf(error) });
  }
}

/**
 * Ends the instance's turn in the lane of the instance. The call runs in parallel with the write of the run's end. The function never
 * throws.
 */
async function tellLane({ env, queue, envelope, instanceId }: Pass, end: RunEnd): Promise<void> {
  if (envelope.kind !== "command" || laneIn(queue) === undefined) return;
  const untold = await crashPoint("L12 ended, lane not notified", instanceId).catch(() => true);
  if (!untold) await tellTurnOver(env, queue, envelope, instanceId, end);
}
