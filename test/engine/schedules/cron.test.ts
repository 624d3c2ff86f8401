import { expect, it } from "vitest";
import { nextAfter, passedSince } from "../../../src/engine/schedules/cron.ts";

const at = (time: string) => Date.parse(time);
const times = (timing: { cron: string; timeZone: string }, from: string, count: number) => {
  const found: string[] = [];
  for (let last = at(from); found.length < count; ) {
    last = nextAfter(timing, last) ?? Number.NaN;
    found.push(new Date(last).toISOString());
  }
  return found;
};

it("a time of day that the clocks skip is due right after the gap; one that comes twice is due once", () => {
  const night = { cron: "30 2 * * *", timeZone: "Europe/Berlin" };
  expect(times(night, "2026-03-27T12:00:00Z", 3)).toEqual([
    "2026-03-28T01:30:00.000Z",
    "2026-03-29T01:00:00.000Z",
    "2026-03-30T00:30:00.000Z",
  ]);
  expect(times(night, "2026-10-24T12:00:00Z", 2)).toEqual(["2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"]);
});

it("every time that passed is counted: one alone, some, and more than anybody counts", () => {
  const minute = { cron: "* * * * *", timeZone: "UTC" };
  const first = at("2026-01-01T00:00:00Z");
  expect(passedSince(minute, first, first + 59_999)).toEqual({ last: first, earlier: null });
  expect(passedSince(minute, first, first + 60_000)).toEqual({ last: first + 60_000, earlier: { count: 1, until: first } });
  expect(passedSince(minute, first, first + 10_000 * 60_000)).toEqual({
    last: first + 10_000 * 60_000,
    earlier: { count: 300, until: first + 9_999 * 60_000 },
  });
});
