import * as fc from "fast-check";
import { expect, it } from "vitest";
import { nextAfter, passedSince } from "../../../packages/millrace/src/schedules/cron.ts";
import { howMany, IS_FULL_SIZE } from "../../full-size.ts";

const at = (time: string) => Date.parse(time);
const times = (timing: { cron: string; timeZone: string }, from: string, count: number) => {
  const found: string[] = [];
  for (let last = at(from); found.length < count; ) {
    last = nextAfter(timing, last) ?? Number.NaN;
    found.push(new Date(last).toISOString());
  }
  return found;
};

it("a time of day that a clock change skips is due right after the gap, and a repeated one is due once", () => {
  const night = { cron: "30 2 * * *", timeZone: "Europe/Berlin" };
  expect(times(night, "2026-03-27T12:00:00Z", 3)).toEqual([
    "2026-03-28T01:30:00.000Z",
    "2026-03-29T01:00:00.000Z",
    "2026-03-30T00:30:00.000Z",
  ]);
  expect(times(night, "2026-10-24T12:00:00Z", 2)).toEqual(["2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"]);
});

it("a time of day in a gap that ends at midnight is due at midnight, and is counted as missed when it has passed", () => {
  // In Nuuk the clock jumps from Saturday, 22:59:59, to Sunday, 0:00, at 01:00 UTC.
  const gap = "2027-03-28T01:00:00.000Z";
  expect(times({ cron: "59 23 27 3 *", timeZone: "America/Nuuk" }, "2026-12-01T00:00:00Z", 2)).toEqual([gap, "2028-03-28T00:59:00.000Z"]);
  const saturdays = { cron: "30 23 * * 6", timeZone: "America/Nuuk" };
  expect(times(saturdays, "2027-03-21T02:00:00Z", 2)).toEqual([gap, "2027-04-04T00:30:00.000Z"]);
  expect(passedSince(saturdays, at("2027-03-21T01:30:00Z"), at("2027-03-29T00:00:00Z"))).toEqual({
    last: at(gap),
    earlier: { count: 1, until: at("2027-03-21T01:30:00Z") },
  });
  const nightly = { cron: "30 23 * * *", timeZone: "America/Nuuk" };
  expect(passedSince(nightly, at("2026-03-01T01:30:00Z"), at("2027-03-28T12:00:00Z"))).toEqual({
    last: at(gap),
    earlier: { count: 300, until: at("2027-03-27T01:30:00Z") },
  });
});

it("missed due times are counted: one, several, and more than the maximum count", () => {
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

/** Days with a clock change: by one hour, by half an hour, by two hours, at midnight, and in the other direction. */
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
  ["America/Nuuk", "2027-03-28"],
  ["America/Nuuk", "2026-10-25"],
] as const;

/** The local times of a zone on a day and on the adjacent days, minute by minute, as if they were UTC. */
function clocks(timeZone: string, day: string): { at: number; shown: number }[] {
  const written = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "short" });
  return Array.from({ length: (4 * DAY) / MINUTE }, (_, index) => {
    const moment = at(day) - 2 * DAY + index * MINUTE;
    return { at: moment, shown: at(`${written.format(moment).replace(" ", "T")}:00Z`) };
  });
}

/** The days with a clock change and their local times, computed once. */
const changes = CHANGES.map(([timeZone, day]) => {
  const shows = clocks(timeZone, day);
  return { timeZone, day, shows, first: new Map(shows.toReversed().map(({ at, shown }) => [shown, at])) };
});
const change = fc.constantFrom(...changes);
const someOf = (least: number, most: number) => fc.uniqueArray(fc.integer({ min: least, max: most }), { minLength: 1, maxLength: 4 });
const within = (day: string, times: Iterable<number>) =>
  [...new Set(times)].filter((time) => Math.abs(time - at(day) - DAY / 2) < DAY).sort((a, b) => a - b);

/** The due times on a day and the adjacent days, in order. */
function dueAround(timing: { cron: string; timeZone: string }, day: string): number[] {
  const found: number[] = [];
  for (let last = nextAfter(timing, at(day) - DAY / 2); last !== null && last < at(day) + 1.5 * DAY; last = nextAfter(timing, last)) {
    found.push(last);
  }
  return within(day, found);
}

it("a pattern with times of day is due once a day at each: right after a gap, and at the first occurrence of a repeated hour", () => {
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

it("a pattern with an interval is due each time that the clock shows a matching time", () => {
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

/** Patterns around a clock change: times before, at and after midnight and the usual hours, lists, ranges, certain days, and intervals. */
const PATTERNS = [
  ...["59 23 * * *", "30 23 * * 6", "0 0 * * *", "@daily", "1 0 * * 0", "0,30 22-23 * * *", "45 23,0,1 * * *", "15 1 * * *", "30 2 * * 0"],
  ...["0 2-4 * * *", "59 2 * * *", "0 3 * * 0", "0 12 28 * *", "55-59 0 * * *", "0-2 23 * 3,10 *", "0 23 27-31 3,10 *"],
  ...["*/30 * * * *", "5 * * * *", "0 */2 * * *", "7 0-23/3 * * *"],
];

const isInterval = (cron: string) => /[*/]/.test(cron.split(" ", 2).join(""));

/** Returns whether a pattern matches a local time. Days of the month and weekdays are never both restricted in PATTERNS. */
function named(pattern: string): (local: number) => boolean {
  const [minute, hour, day, month, weekday] = pattern
    .replace("@daily", "0 0 * * *")
    .split(" ")
    .map((field) => {
      const values = field.split(",").flatMap((one) => {
        const [range = "", step = "1"] = one.split("/");
        const [from = 0, to = from] = range === "*" ? [0, 59] : range.split("-").map(Number);
        return Array.from({ length: to - from + 1 }, (_, index) => from + index).filter((value) => (value - from) % Number(step) === 0);
      });
      return new Set(values);
    });
  return (local) => {
    const date = new Date(local);
    return (
      minute?.has(date.getUTCMinutes()) === true &&
      hour?.has(date.getUTCHours()) === true &&
      day?.has(date.getUTCDate()) === true &&
      month?.has(date.getUTCMonth() + 1) === true &&
      weekday?.has(date.getUTCDay()) === true
    );
  };
}

/** Each minute with the local times that are new at it: none in a repeated hour, and all skipped ones after a gap. */
function withNew(shows: readonly { at: number; shown: number }[]): { at: number; fresh: number[] }[] {
  let latest = (shows[0]?.shown ?? 0) - MINUTE;
  return shows.map(({ at, shown }) => {
    const fresh = Array.from({ length: Math.max(0, (shown - latest) / MINUTE) }, (_, index) => latest + (index + 1) * MINUTE);
    latest = Math.max(latest, shown);
    return { at, fresh };
  });
}

/** The days with a clock change in a zone, and the offset of each half hour of such a day. The search goes by weeks, then by days. */
function changesOf(timeZone: string, from: number, to: number): { day: string; offsets: string }[] {
  const written = new Intl.DateTimeFormat("en", { timeZone, timeZoneName: "longOffset" });
  const offset = (moment: number) => written.format(moment).split("GMT")[1];
  const every = (first: number, last: number, step: number) =>
    Array.from({ length: Math.ceil((last - first) / step) }, (_, index) => first + index * step);
  const changed = (moments: number[], step: number) => moments.filter((moment) => offset(moment) !== offset(moment + step));
  return changed(every(Date.UTC(from, 0), Date.UTC(to, 0), 7 * DAY), 7 * DAY)
    .flatMap((week) => changed(every(week, week + 7 * DAY, DAY), DAY))
    .map((day) => ({
      day: new Date(day).toISOString().slice(0, 10),
      offsets: every(day, day + DAY, 30 * MINUTE)
        .map(offset)
        .join(),
    }));
}

it("the due times around each clock change in every time zone of the runtime equal those of a clock that is read each minute", () => {
  const [from, to] = IS_FULL_SIZE ? [2025, 2031] : [2027, 2028];
  const seen = new Set<string>();
  let compared = 0;
  const wrong: string[] = [];
  for (const timeZone of Intl.supportedValuesOf("timeZone")) {
    for (const { day, offsets } of changesOf(timeZone, from, to)) {
      // Zones with equal offsets on a day give equal results, so only the first is tested. The full size tests each one.
      if (!IS_FULL_SIZE && seen.has(day + offsets)) continue;
      seen.add(day + offsets);
      const shows = clocks(timeZone, day);
      const minutes = withNew(shows);
      for (const cron of PATTERNS) {
        const isDue = named(cron);
        const due = isInterval(cron)
          ? shows.filter(({ shown }) => isDue(shown)).map(({ at }) => at)
          : minutes.filter(({ fresh }) => fresh.some(isDue)).map(({ at }) => at);
        const [found, model] = [dueAround({ cron, timeZone }, day), within(day, due)];
        if (found.join() !== model.join()) wrong.push(`${timeZone} ${day} ${cron}: ${found.join()} instead of ${model.join()}`);
        compared++;
      }
    }
  }
  if (IS_FULL_SIZE) console.log(`${compared} patterns around changes compared, ${wrong.length} wrong`);
  expect(wrong).toEqual([]);
  expect(compared).toBeGreaterThan(500);
}, 3_600_000);

it("the last two due times are correct also when more times have passed than are counted", () => {
  void fc.assert(
    fc.property(change, fc.integer({ min: -DAY / MINUTE / 2, max: DAY / MINUTE }), ({ timeZone, day, shows }, minutes) => {
      const now = at(day) + minutes * MINUTE + 30_000;
      const due = withNew(shows).filter((one) => one.fresh.length > 0 && one.at <= now);
      const [until, last] = due.slice(-2).map((one) => one.at);
      const passed = passedSince({ cron: "0-59 0-23 * * *", timeZone }, at(day) - DAY, now);
      expect(passed).toEqual({ last, earlier: { count: 300, until } });
    }),
    { numRuns: howMany(10, 100) },
  );
}, 600_000);
