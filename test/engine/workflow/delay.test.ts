import { errors, MillraceError, retryAfter, upstreamRefused } from "millrace";
import { expect, it } from "vitest";
import { nextDelayMs } from "../../../packages/millrace/src/workflow/step-attempts.ts";

const HOUR_MS = 3_600_000;
const POLICY = { limit: 5, delay: "10 seconds", backoff: "linear" } as const;

it.each([
  ["an error without a delay", upstreamRefused("No."), [10_000, 20_000, 30_000]],
  ["an error with no Retry-After", retryAfter(0, "Busy."), [10_000, 20_000, 30_000]],
  ["an error with a negative Retry-After", retryAfter(-5, "Busy."), [10_000, 20_000, 30_000]],
  ["an error with a Retry-After that is no number", retryAfter(Number.NaN, "Busy."), [10_000, 20_000, 30_000]],
  ["an error with a Retry-After below the policy's delay", retryAfter(1, "Busy."), [10_000, 20_000, 30_000]],
  ["an error with a Retry-After above the policy's first delays", retryAfter(25_000, "Busy."), [25_000, 25_000, 30_000]],
  ["an error in_progress with a delay below the policy's", errors.inProgress(2_000, "Busy."), [10_000, 20_000, 30_000]],
  [
    "an error unavailable with a delay of 25 seconds",
    new MillraceError("unavailable", "Away.", { delayMs: 25_000 }),
    [25_000, 25_000, 30_000],
  ],
  ["an error with a Retry-After of a day", retryAfter(24 * HOUR_MS, "Busy."), [12 * HOUR_MS, 12 * HOUR_MS, 12 * HOUR_MS]],
])("the delay of a retry is never shorter than its policy after %s", (_, error, delays) => {
  expect([1, 2, 3].map((attempt) => nextDelayMs(POLICY, attempt, error))).toEqual(delays);
});
