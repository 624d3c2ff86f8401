import * as fc from "fast-check";
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

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** Days on which clocks are changed: by an hour, by half an hour, by two hours, at midnight, and by the other way around. */
const CHANGES = [
  ["Europe/Berlin", "2026-03-29"],
  ["Europe/Berlin", "2026-10-25"],
  ["America/New_York", "2026-03-08"],
  ["America/New_York", "2026-11-01"],
  ["Australia/Lord_Howe", "2026-10-04"],
  ["Australia/Lord_Howe", "2027-04-04"],
  ["Antarctica/Troll", "2026-03-29"],
  ["Antarctica/Troll", "2026-10-25"],
  ["America/Havana", "2026-03-08"],
  ["America/Havana", "2026-11-01"],
  ["Africa/Cairo", "2026-04-24"],
  ["Africa/Cairo", "2026-10-30"],
] as const;

/** What the clocks of a zone show on a day and those beside it: each minute, as if it were one of UTC. */
function clocks(timeZone: string, day: string): { at: number; shown: number }[] {
  const written = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "short" });
  return Array.from({ length: (4 * DAY) / MINUTE }, (_, index) => {
    const moment = at(day) - 2 * DAY + index * MINUTE;
    return { at: moment, shown: at(`${written.format(moment).replace(" ", "T")}:00Z`) };
  });
}

/** The days of a change and what its clocks show, made once. */
const changes = CHANGES.map(([timeZone, day]) => {
  const shows = clocks(timeZone, day);
  return { timeZone, day, shows, first: new Map(shows.toReversed().map(({ at, shown }) => [shown, at])) };
});
const change = fc.constantFrom(...changes);
const someOf = (least: number, most: number) => fc.uniqueArray(fc.integer({ min: least, max: most }), { minLength: 1, maxLength: 4 });
const within = (day: string, times: Iterable<number>) =>
  [...new Set(times)].filter((time) => Math.abs(time - at(day) - DAY / 2) < DAY).sort((a, b) => a - b);

/** What is due around a day, one after the other. */
function dueAround(timing: { cron: string; timeZone: string }, day: string): number[] {
  const found: number[] = [];
  for (let last = nextAfter(timing, at(day) - DAY / 2); last !== null && last < at(day) + 1.5 * DAY; last = nextAfter(timing, last)) {
    found.push(last);
  }
  return within(day, found);
}

it("times of day, in lists too, are each due once a day: right after the gap they fall into, and when they come first, if twice", () => {
  const hours = fc.oneof(someOf(0, 23), someOf(0, 4));
  void fc.assert(
    fc.property(change, someOf(0, 59), hours, fc.option(someOf(0, 6)), ({ timeZone, day, shows, first }, minute, hour, weekdays) => {
      const model = [-2, -1, 0, 1, 2]
        .map((days) => at(day) + days * DAY)
        .filter((date) => weekdays === null || weekdays.includes(new Date(date).getUTCDay()))
        .flatMap((date) => hour.flatMap((h) => minute.map((m) => date + (h * 60 + m) * MINUTE)))
        .map((wanted) => first.get(wanted) ?? shows.find(({ shown }) => shown > wanted)?.at ?? 0);
      const timing = { cron: `${minute} ${hour} * * ${weekdays ?? "*"}`, timeZone };
      expect(dueAround(timing, day)).toEqual(within(day, model));
    }),
    { numRuns: 60 },
  );
});

it("an interval is due whenever the clock shows it, as often as it does", () => {
  const every = (most: number) => fc.constantFrom("*", ...[2, 7, 15].map((step) => `${most > 30 ? "*" : `0-${most}`}/${step}`));
  const isIn = (field: string, value: number) => field === "*" || value % Number(field.split("/")[1] ?? 1) === 0;
  void fc.assert(
    fc.property(change, every(59), every(23), ({ timeZone, day, shows }, minute, hour) => {
      const model = shows.filter(
        ({ shown }) => isIn(minute, (shown / MINUTE) % 60) && isIn(hour, Math.floor((shown % DAY) / (60 * MINUTE))),
      );
      expect(dueAround({ cron: `${minute} ${hour} * * *`, timeZone }, day)).toEqual(
        within(
          day,
          model.map((minute) => minute.at),
        ),
      );
    }),
    { numRuns: 10 },
  );
});
