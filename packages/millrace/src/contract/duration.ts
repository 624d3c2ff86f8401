import { MillraceError } from "./errors.ts";

/** Cloudflare's format of a duration: `"30 seconds"`, or a number of milliseconds. */
export type Duration = `${number} ${"second" | "minute" | "hour" | "day" | "week"}${"" | "s"}` | number;

/** The platform's maximum duration of a sleep or wait. */
export const YEAR_MS = 365 * 86_400_000;

const UNIT_MS: Record<string, number> = { second: 1000, minute: 60_000, hour: 3_600_000, day: 86_400_000, week: 604_800_000 };

/** True for a negative number and for NaN. A duration computed from the clock is negative when its time has passed. */
export function isNoLength(duration: Duration): duration is number {
  return typeof duration === "number" && !(duration >= 0);
}

/** Converts a duration to milliseconds. Errors: `config_invalid` for an unknown unit, and for a value that is no duration. */
export function durationMs(duration: Duration): number {
  const [, amount, unit = ""] = /^(\S+) ([a-z]+?)s?$/.exec(String(duration)) ?? [];
  const ms = typeof duration === "number" ? duration : Number(amount) * (UNIT_MS[unit] ?? Number.NaN);
  if (ms >= 0 && Number.isFinite(ms)) return ms;
  throw new MillraceError(
    "config_invalid",
    `"${duration}" is not a duration. Write it like "30 seconds" or "5 minutes", or as milliseconds.`,
  );
}

/**
 * Exponential backoff with jitter: `min(initial × 2^(attempt-1), max)`, plus up to 10 %, so that retries do not coincide. `attempt` is
 * 1-based.
 */
export function backoffMs(attempt: number, initialMs: number, maxMs: number, random: () => number = Math.random): number {
  const base = Math.min(initialMs * 2 ** (attempt - 1), maxMs);
  return Math.round(base * (1 + 0.1 * random()));
}

export function durationInWords(duration: Duration): string {
  return typeof duration === "number" ? `${duration} ms` : duration;
}

const TIME = String.raw`\d{2}:\d{2}:\d{2}`;

/** The three forms of an HTTP date (RFC 9110, 5.6.7). `Date.parse` alone also reads `2.5` and `-5` as dates. */
const DATES = [
  new RegExp(`^[A-Z][a-z]{2}, \\d{2} [A-Z][a-z]{2} \\d{4} ${TIME} GMT$`),
  new RegExp(`^[A-Z][a-z]{5,8}, \\d{2}-[A-Z][a-z]{2}-\\d{2} ${TIME} GMT$`),
  new RegExp(`^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \\d]\\d ${TIME} \\d{4}$`),
];

/**
 * The delay of a `Retry-After` field in milliseconds (RFC 9110, 10.2.3): whole seconds, or an HTTP date. 0 for a past date. Undefined for a
 * missing or invalid field. A step always waits at least its own delay, so it is safe to pass 0 to `retryAfter`.
 */
export function retryAfterMs(field: string | null, now = Date.now()): number | undefined {
  const value = field?.trim() ?? "";
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  if (!DATES.some((form) => form.test(value))) return undefined;
  const at = Date.parse(value.endsWith("GMT") ? value : `${value} GMT`);
  return Number.isNaN(at) ? undefined : Math.max(at - now, 0);
}
