import type { Duration } from "millrace";
import { expect, it } from "vitest";
import { backoffMs, durationMs } from "../../../packages/millrace/src/contract/duration.ts";

it.each([
  ["30 seconds", 30_000],
  ["1 minute", 60_000],
  ["1.5 hours", 5_400_000],
  ["2 days", 172_800_000],
  ["1 week", 604_800_000],
  [250, 250],
  [0, 0],
] satisfies [Duration, number][])("the duration %s is %i ms", (duration, ms) => expect(durationMs(duration)).toBe(ms));

it.each(["soon", "-1 seconds", "3 fortnights", "5", "", Number.NaN, -1, Number.POSITIVE_INFINITY])(
  "the invalid duration %s is refused, and the error shows the correct form",
  (duration) => expect(() => durationMs(duration as Duration)).toThrow(/is not a duration\. Write it like/),
);

it("the back-off between retries doubles up to its maximum, with at most 10 % jitter", () => {
  expect([1, 2, 3, 4, 5].map((attempt) => backoffMs(attempt, 1000, 6000, () => 0))).toEqual([1000, 2000, 4000, 6000, 6000]);
  expect(backoffMs(3, 1000, 6000, () => 1)).toBe(4400);
});
