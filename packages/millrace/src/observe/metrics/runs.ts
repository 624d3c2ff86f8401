import { isCode } from "../../contract/errors.ts";
import { count, observe } from "./count.ts";

/** The outcome of an attempt at a step: done, retried by the platform, failed for good, or unknown. */
export type AttemptOutcome = "done" | "retried" | "failed" | "in_doubt";

/**
 * Counts an attempt at a step, and its duration. `step`: the step's name in the code, or undefined for one of the engine's own steps, which
 * share one label.
 */
export function countAttempt(
  env: object,
  { workflow, step, outcome, beganAt }: { workflow: string; step: string | undefined; outcome: AttemptOutcome; beganAt: number },
): void {
  const name = step ?? ENGINE_STEPS;
  count(env, "step_attempts_total", { workflow, step: name, outcome });
  observe(env, "step_duration_seconds", { workflow, step: name }, (Date.now() - beganAt) / 1000);
}

/** The step label of all steps of the engine itself. */
export const ENGINE_STEPS = "engine";

/** Counts a run that ended. `code`: the error code of the run. */
export function countEnd(env: object, workflow: string, status: string, code: string | undefined): void {
  count(env, "instances_ended_total", { workflow, status, code: code === undefined ? "" : codeLabel(code) });
}

/** Counts messages that became dead letters. */
export function countLetters(env: object, letters: readonly { readonly queue: string; readonly reason: string | undefined }[]): void {
  for (const { queue, reason } of letters) count(env, "queue_dlq_total", { queue, reason: codeLabel(reason) });
}

/** The label of an error code. Every text that is no error code gets the label `other`. */
function codeLabel(code = "other"): string {
  return isCode(code) ? code : "other";
}
