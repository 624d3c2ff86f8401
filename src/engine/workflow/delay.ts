import { backoffMs, durationMs } from "../contract/duration.ts";
import { askedDelayMs, codeOf } from "../contract/errors.ts";
import type { Retries } from "../guard/step.ts";

/**
 * Milliseconds before the next attempt: what the upstream asked for, or else the policy's own back-off, capped at an hour. What is out
 * of reach for the moment (`unavailable`) says when to come back at the earliest: it is not hurried past the policy.
 */
export function nextDelayMs(retries: Retries, attempt: number, error: unknown): number {
  const asked = askedDelayMs(error);
  if (asked === undefined || !(asked >= 0)) return backOffMs(retries, attempt);
  return Math.min(codeOf(error) === "unavailable" ? Math.max(asked, backOffMs(retries, attempt)) : asked, MAX_DELAY_MS);
}

/** The platform ends a step at once whose delay it cannot take. */
const MAX_DELAY_MS = 12 * 3_600_000;

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
