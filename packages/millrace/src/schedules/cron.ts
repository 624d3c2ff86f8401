import { Cron } from "croner";
import { MillraceError } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";

/** A cron pattern of five fields (minute, hour, day of the month, month, day of the week) in a time zone. */
export interface Timing {
  cron: string;
  /** The IANA name of a time zone, such as `Europe/Berlin`. */
  timeZone: string;
}

/** The due times of a schedule that have passed. */
export interface Passed {
  last: number;
  /** The number of due times before the latest due time, and the latest time among these earlier due times. */
  earlier: { count: number; until: number } | null;
}

/**
 * Maximum number of due times that are counted, because counting one due time takes a tenth of a millisecond. If more due times than the
 * maximum have passed, the maximum is recorded as a lower bound. A pattern that is due each minute reaches the maximum after five hours.
 */
export const COUNTED_TIMES = 300;

/**
 * The first due time after `at`; null for a pattern without a further due time. A pattern with minute and hour fields of only
 * numbers, lists and ranges defines times of day. A time of day that the clock skips is due right after the gap. A time of day that the
 * clock shows twice is due only when the clock first shows it. A pattern with a wildcard or a step in the minute or hour field defines an
 * interval. Such a pattern is due whenever the clock shows a matching time.
 */
export function nextAfter(timing: Timing, at: number): number | null {
  return clockOf(timing).after(at);
}

/** The due times from the due time `first` until now. */
export function passedSince(timing: Timing, first: number, now: number): Passed {
  const clock = clockOf(timing);
  const times = [first];
  for (let last = first; times.length <= COUNTED_TIMES; times.push(last)) {
    const next = clock.after(last);
    if (next === null || next > now) return passed(times, times.length);
    last = next;
  }
  return passed(clock.lastTwo(now), times.length);
}

function passed(times: readonly number[], count: number): Passed {
  const [until, last] = times.slice(-2);
  if (last === undefined) return { last: until ?? 0, earlier: null };
  return { last, earlier: { count: count - 1, until: until ?? last } };
}

/** The number of due times including the last one, up to the maximum. */
export function countOf({ earlier }: Passed): number {
  return Math.min((earlier?.count ?? 0) + 1, COUNTED_TIMES);
}

const NOT_CRON = "is not five fields of cron, such as 0 7 * * 1 (Mondays at seven)";
const FIELDS = [
  "minute: 0 to 59",
  "hour: 0 to 23",
  "day of the month: 1 to 31",
  "month: 1 to 12, or JAN to DEC",
  "day of the week: 0 to 7, or SUN to SAT",
];

/** Validates a cron pattern and its time zone. Errors: `invalid_payload` with the invalid field. */
export function checkTiming({ cron, timeZone }: Timing): void {
  // The runtime also accepts offsets as time zones, but offsets have no daylight saving time.
  if (!/^[A-Za-z]/.test(timeZone) || !isTimeZone(timeZone))
    throw invalid("time_zone", "must be the IANA name of a time zone, such as Europe/Berlin");
  // A pattern is a name such as @daily, or has five fields. The library croner also accepts a single date, which is due only once.
  if (!cron.startsWith("@") && cron.split(/\s+/).length !== 5) throw invalid("cron", NOT_CRON);
  if (!isPattern(cron)) throw invalid("cron", wrongField(cron) ?? NOT_CRON);
  if (nextAfter({ cron, timeZone }, Date.now()) === null) throw invalid("cron", "is never due: no such day comes");
}

/** The first invalid field of a pattern. Each field is tested in a pattern with four wildcards. */
function wrongField(cron: string): string | undefined {
  const fields = cron.split(/\s+/);
  const at = fields.findIndex((field, index) => !isPattern(fields.map((_, place) => (place === index ? field : "*")).join(" ")));
  return fields.length === FIELDS.length && FIELDS[at] ? `has \`${beginning(fields[at] ?? "", 50)}\` for the ${FIELDS[at]}` : undefined;
}

function isPattern(cron: string): boolean {
  try {
    return cronOf({ cron, timeZone: "UTC" }) !== undefined;
  } catch {
    return false;
  }
}

/** True if this runtime can compute due times. A later runtime may not have a time zone that was stored. */
export function isTiming({ cron, timeZone }: Timing): boolean {
  return isPattern(cron) && isTimeZone(timeZone);
}

function cronOf({ cron, timeZone }: Timing): Cron {
  return new Cron(cron, { timezone: timeZone, mode: "5-part", paused: true, fixedTimeRule: "no-wildcard" });
}

/** The due times of a pattern, in milliseconds. */
interface DueTimes {
  after(at: number): number | null;
  /** The latest two due times that have passed, in ascending order. */
  lastTwo(now: number): number[];
}

function clockOf(timing: Timing): DueTimes {
  const [minute = "", hour = ""] = timing.cron.split(/\s+/);
  const isInterval = /^@hourly$/i.test(minute) || /[*?/]/.test(minute + hour);
  return isInterval ? intervals(timing) : timesOfDay(timing);
}

function intervals(timing: Timing): DueTimes {
  const cron = cronOf(timing);
  return {
    after: (at) => cron.nextRun(new Date(at))?.getTime() ?? null,
    lastTwo: (now) =>
      cron
        .previousRuns(2, new Date(now + 1))
        .map((time) => time.getTime())
        .reverse(),
  };
}

/**
 * The library croner drops a time of day in a gap that ends on another date. For example, croner drops 23:30 when the clock jumps from
 * 23:00 to midnight. Therefore croner computes local times as if the zone were UTC, and `dueAt` converts each local time. Of two local
 * times, the later local time is never due before the earlier local time.
 */
function timesOfDay({ cron: pattern, timeZone }: Timing): DueTimes {
  const cron = cronOf({ cron: pattern, timeZone: "UTC" });
  const shows = shownIn(timeZone);
  return {
    after(at) {
      for (let local = cron.nextRun(new Date(shows(at))); local; local = cron.nextRun(local)) {
        const due = dueAt(local.getTime(), shows);
        if (due > at) return due;
      }
      return null;
    },
    lastTwo(now) {
      const found = new Set<number>();
      const latest = Math.max(shows(now), shows(now - DAY) + DAY) + 1;
      for (let [local] = cron.previousRuns(1, new Date(latest)); local && found.size < 2; [local] = cron.previousRuns(1, local)) {
        const due = dueAt(local.getTime(), shows);
        if (due <= now) found.add(due);
      }
      return [...found].reverse();
    },
  };
}

const DAY = 24 * 60 * 60 * 1000;

/** The first moment at which the clock shows this local time, or the end of the gap that skips it. */
function dueAt(local: number, shows: (at: number) => number): number {
  const possible = [local - DAY, local + DAY].map((at) => local - (shows(at) - at)).sort((one, other) => one - other);
  const shown = possible.find((at) => shows(at) === local);
  if (shown !== undefined) return shown;
  let [before = local, end = local] = possible;
  while (end - before > 1000) {
    const middle = before + Math.floor((end - before) / 2000) * 1000;
    if (shows(middle) > local) end = middle;
    else before = middle;
  }
  return end;
}

/** The local time of a zone at a moment, in whole seconds, as the same time in UTC. */
function shownIn(timeZone: string): (at: number) => number {
  const numeric = "numeric";
  const fields = { year: numeric, month: numeric, day: numeric, hour: numeric, minute: numeric, second: numeric } as const;
  const format = new Intl.DateTimeFormat("en-US", { timeZone, hourCycle: "h23", calendar: "gregory", ...fields });
  return (at) => {
    const part = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = part;
    return Date.UTC(year, month - 1, day, hour, minute, second);
  };
}

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== undefined;
  } catch {
    return false;
  }
}

function invalid(path: string, message: string): MillraceError {
  return new MillraceError("invalid_payload", `The schedule is not valid: ${path} ${message}.`, { issues: [{ path, message }] });
}
