import { useCell } from "../data/cell.ts";
import { clock } from "../data/clock.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A duration in the two units that matter: `4 m 12 s`, `850 ms`. */
export function duration(ms: number): string {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < MINUTE) return `${Math.round(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} m ${Math.round((ms % MINUTE) / SECOND)} s`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h ${Math.round((ms % HOUR) / MINUTE)} m`;
  return `${Math.floor(ms / DAY)} d ${Math.round((ms % DAY) / HOUR)} h`;
}

/** How far a moment is from now, in one unit: `12 s ago`, `in 3 min`. */
function distance(at: number, now: number): string {
  const ms = Math.abs(now - at);
  // Two clocks are never quite the same.
  if (ms < 2 * SECOND) return "now";
  const said =
    ms < MINUTE
      ? `${Math.floor(ms / SECOND)} s`
      : ms < HOUR
        ? `${Math.floor(ms / MINUTE)} min`
        : ms < 2 * DAY
          ? `${Math.floor(ms / HOUR)} h`
          : `${Math.floor(ms / DAY)} d`;
  // The clock is a second old at most: what has just happened is not ahead.
  return at - now >= SECOND ? `in ${said}` : `${said} ago`;
}

// Each is made once, when it is first needed: making one takes longer than all else that a row of a table needs.
let exactly: Intl.DateTimeFormat | undefined;
let ofDay: Intl.DateTimeFormat | undefined;

/** The exact moment, where the reader is. */
export function exact(at: string): string {
  exactly ??= new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  return exactly.format(new Date(at));
}

/** The time of a day, to the second. */
export function clockTime(at: string | number): string {
  ofDay ??= new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
  return ofDay.format(new Date(at));
}

/** A moment as its distance from now; the exact one is shown on hover and focus. */
export function Ago({ at }: { at: string }) {
  const said = useCell(clock, (now) => distance(Date.parse(at), now));
  return (
    <time datetime={at} title={exact(at)}>
      {said}
    </time>
  );
}
