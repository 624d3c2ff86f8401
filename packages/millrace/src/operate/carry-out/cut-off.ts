import type { EngineEnv } from "../../contract/bindings.ts";
import { isDefiniteRefusal, MillraceError } from "../../contract/errors.ts";
import { codeLabelOf } from "../../contract/step-names.ts";
import { type AttemptError, type StepRecord, wholeHistoryOf } from "../../inspect/history.ts";
import { noteCutOff } from "../../store/actions.ts";
import { atomically } from "../../store/d1/retry.ts";

interface Ended {
  readonly id: string;
  readonly instance_id: string;
  readonly workflow: string;
}

/**
 * Records the steps that a cancel or a restart cut off, for a later undo: those with a running attempt, or with a failed attempt of unknown
 * outcome. A history that the platform removed has none.
 */
export async function keepCutOff(env: EngineEnv, { id, instance_id, workflow }: Ended): Promise<void> {
  const { steps } = await wholeHistoryOf(env, { id: instance_id, workflow });
  const labels = new Set(steps.filter(isCutOff).map(codeLabelOf));
  if (labels.size > 0) await atomically(env.DB, [noteCutOff(id, [...labels])]);
}

/**
 * The platform shows a step as complete if the next try was deferred by a stop or a pause. If it had an effect, the undo uses its entry
 * instead.
 */
function isCutOff({ type, state, attempts, reads }: StepRecord): boolean {
  if (type !== "do" || reads || state === "errored") return false;
  return (state === "running" && attempts.length > 0) || attempts.some(({ error }) => error !== null && !isRefusal(error));
}

function isRefusal({ code, message }: AttemptError): boolean {
  return code !== null && isDefiniteRefusal(new MillraceError(code, message));
}
