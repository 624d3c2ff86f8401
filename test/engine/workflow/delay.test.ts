import { inProgress, MillraceError, retryAfter, upstreamRefused } from "millrace";
import { expect, it } from "vitest";
import { nextDelayMs } from "../../../packages/millrace/src/workflow/delay.ts";

const HOUR_MS = 3_600_000;
const POLICY = { limit: 5, delay: "10 seconds", backoff: "linear" } as const;

it.each([
  ["names no wait", upstreamRefused("No."), [10_000, 20_000, 30_000]],
  ["names 0", retryAfter(0, "Busy."), [10_000, 20_000, 30_000]],
  ["names a negative wait", retryAfter(-5, "Busy."), [10_000, 20_000, 30_000]],
  ["names a wait that is no number", retryAfter(Number.NaN, "Busy."), [10_000, 20_000, 30_000]],
  ["names less than the policy", retryAfter(1, "Busy."), [10_000, 20_000, 30_000]],
  ["names more than the policy at first", retryAfter(25_000, "Busy."), [25_000, 25_000, 30_000]],
  ["is still at work", inProgress(2_000, "Busy."), [10_000, 20_000, 30_000]],
  ["is unavailable for 25 seconds", new MillraceError("unavailable", "Away.", { delayMs: 25_000 }), [25_000, 25_000, 30_000]],
  ["names a day", retryAfter(24 * HOUR_MS, "Busy."), [12 * HOUR_MS, 12 * HOUR_MS, 12 * HOUR_MS]],
])("an error that %s never shortens the delay of the policy", (_, error, delays) => {
  expect([1, 2, 3].map((attempt) => nextDelayMs(POLICY, attempt, error))).toEqual(delays);
});
