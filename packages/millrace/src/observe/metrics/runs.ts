import { isCode } from "../../contract/errors.ts";
import { count, observe } from "./count.ts";

/** How an attempt at a step came out: done; the platform makes another; failed for good; or nobody knows whether it happened. */
export type AttemptOutcome = "done" | "retried" | "failed" | "in_doubt";

/** Counts an attempt at a step, and how long it took. `step` is its name in the code; the engine's own steps go together. */
export function countAttempt(
  env: object,
  { workflow, step, outcome, beganAt }: { workflow: string; step: string | undefined; outcome: AttemptOutcome; beganAt: number },
): void {
  const name = step ?? ENGINE_STEPS;
  count(env, "step_attempts_total", { workflow, step: name, outcome });
  observe(env, "step_duration_seconds", { workflow, step: name }, (Date.now() - beganAt) / 1000);
}

const ENGINE_STEPS = "engine";

/** Counts a run that ended. `code` is of the error for which it failed. */
export function countEnd(env: object, workflow: string, status: string, code: string | undefined): void {
  count(env, "instances_ended_total", { workflow, status, code: code === undefined ? "" : codeLabel(code) });
}

/** Counts messages that became dead letters. */
export function countLetters(env: object, letters: readonly { readonly queue: string; readonly reason: string | undefined }[]): void {
  for (const { queue, reason } of letters) count(env, "queue_dlq_total", { queue, reason: codeLabel(reason) });
}

/** Codes are words that code chose; what is none may be anything. */
function codeLabel(code = "other"): string {
  return isCode(code) ? code : "other";
}
