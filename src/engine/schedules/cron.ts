import { Cron } from "croner";
import { MillraceError } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";

/** When something is due: five fields of cron (minute, hour, day of the month, month, day of the week), read in a time zone. */
export interface Timing {
  cron: string;
  /** An IANA name, such as `Europe/Berlin`. */
  timeZone: string;
}

/** Due times that have passed. */
export interface Passed {
  last: number;
  /** How many there were before the last one, and which of them was nearest to it. */
  earlier: { count: number; until: number } | null;
}

/**
 * Times counted one by one, at a tenth of a millisecond each: beyond, the count is a lower bound. A minute's pattern reaches it after five
 * hours.
 */
export const COUNTED_TIMES = 300;

/**
 * The first due time after this one; null when there is none. Where minute and hour are numbers, lists and ranges, they name times of day:
 * one that does not exist, because clocks are put forward, is due right after the gap, and one that comes twice, because they are put back,
 * is due when it comes first. With a wildcard or a step in either, they name an interval: each of its times that the clock shows is due, as
 * often as it shows it.
 */
export function nextAfter(timing: Timing, at: number): number | null {
  return cronOf(timing).nextRun(new Date(at))?.getTime() ?? null;
}

/** The due times from this one, itself one of them, up to now. */
export function passedSince(timing: Timing, first: number, now: number): Passed {
  const cron = cronOf(timing);
  const times = [first];
  for (let last = first; times.length <= COUNTED_TIMES; times.push(last)) {
    const next = cron.nextRun(new Date(last))?.getTime();
    if (next === undefined || next > now) return passed(times, times.length);
    last = next;
  }
  const latest = cron.previousRuns(2, new Date(now + 1)).map((time) => time.getTime());
  return passed(latest.reverse(), times.length);
}

function passed(times: readonly number[], count: number): Passed {
  const [until, last] = times.slice(-2);
  if (last === undefined) return { last: until ?? 0, earlier: null };
  return { last, earlier: { count: count - 1, until: until ?? last } };
}

const NOT_CRON = "is not five fields of cron, such as 0 7 * * 1 (Mondays at seven)";
const FIELDS = [
  "minute: 0 to 59",
  "hour: 0 to 23",
  "day of the month: 1 to 31",
  "month: 1 to 12, or JAN to DEC",
  "day of the week: 0 to 7, or SUN to SAT",
];

/** Errors: `invalid_payload` with the field that is wrong. */
export function checkTiming({ cron, timeZone }: Timing): void {
  // An offset is taken by the runtime too, but knows nothing of summer time.
  if (!/^[A-Za-z]/.test(timeZone) || !isTimeZone(timeZone))
    throw invalid("time_zone", "must be the IANA name of a time zone, such as Europe/Berlin");
  // A name, or five fields: croner would take a single date too, which is due once.
  if (!cron.startsWith("@") && cron.split(/\s+/).length !== 5) throw invalid("cron", NOT_CRON);
  if (!isPattern(cron)) throw invalid("cron", wrongField(cron) ?? NOT_CRON);
  if (cronOf({ cron, timeZone }).nextRun() === null) throw invalid("cron", "is never due: no such day comes");
}

/** Which field makes it no pattern: the first that is none beside four that say nothing. */
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

function cronOf({ cron, timeZone }: Timing): Cron {
  return new Cron(cron, { timezone: timeZone, mode: "5-part", paused: true, fixedTimeRule: "no-wildcard" });
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
