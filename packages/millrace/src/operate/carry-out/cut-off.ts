import type { EngineEnv } from "../../contract/bindings.ts";
import { isDefiniteRefusal, MillraceError } from "../../contract/errors.ts";
import { codeLabelOf } from "../../contract/step-names.ts";
import { type AttemptError, type StepRecord, wholeHistoryOf } from "../../inspect/history.ts";
import { noteCutOff } from "../../store/actions.ts";
import { atomically } from "../../store/d1/retry.ts";

/** A run that was ended for a cancel or a restart. */
interface Ended {
  /** The action's id. */
  readonly id: string;
  readonly instance_id: string;
  readonly workflow: string;
}

/**
 * Writes down which steps a cancel or a restart has cut off, for an undo that follows: an attempt was under way, or had failed without a
 * word on whether it happened, when the run ended. What the platform has forgotten names none.
 */
export async function keepCutOff(env: EngineEnv, { id, instance_id, workflow }: Ended): Promise<void> {
  const { steps } = await wholeHistoryOf(env, { id: instance_id, workflow });
  const labels = new Set(steps.filter(isCutOff).map(codeLabelOf));
  if (labels.size > 0) await atomically(env.DB, [noteCutOff(id, [...labels])]);
}

/**
 * A step whose next try was held, because a person had stopped or paused the run, is over for the platform: one that did something has its
 * entry, by which the undo goes first.
 */
function isCutOff({ type, state, attempts, reads }: StepRecord): boolean {
  if (type !== "do" || reads || state === "errored") return false;
  return (state === "running" && attempts.length > 0) || attempts.some(({ error }) => error !== null && !isRefusal(error));
}

function isRefusal({ code, message }: AttemptError): boolean {
  return code !== null && isDefiniteRefusal(new MillraceError(code, message));
}
