import { backoffMs, durationMs } from "../contract/duration.ts";
import { askedDelayMs } from "../contract/errors.ts";
import type { Retries } from "../guard/step.ts";

/**
 * Milliseconds before the next attempt: the policy's back-off, capped at an hour, or the wait that the error names where that is longer. An
 * error never shortens the back-off: an upstream that names 0 or 1 second each time would use up all attempts within seconds.
 */
export function nextDelayMs(retries: Retries, attempt: number, error: unknown): number {
  return Math.max(Math.min(askedDelayMs(error) ?? 0, MAX_ASKED_MS), backOffMs(retries, attempt));
}

/** The longest wait that an error can name: the platform ends a step at once whose delay it cannot take. */
const MAX_ASKED_MS = 12 * 3_600_000;

function backOffMs(retries: Retries, attempt: number): number {
  const delayMs = durationMs(retries.delay);
  switch (retries.backoff ?? "exponential") {
    case "constant":
      return delayMs;
    case "linear":
      return Math.min(delayMs * attempt, 3_600_000);
    case "exponential":
      return backoffMs(attempt, delayMs, 3_600_000);
  }
}
