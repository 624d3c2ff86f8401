import { retryAfterMs } from "../contract/duration.ts";

/** The limit that an upstream reports. The report is either a refusal, or the count of remaining calls and the time until the reset. */
export interface Word {
  /** The milliseconds for which the upstream refused calls; null if the upstream reported no time, or a time below `UNNAMED_PAUSE_MS`. */
  refusedForMs?: number | null;
  /** The remaining calls of each quota that is nearly used up, and the milliseconds to the quota's reset. */
  left?: readonly { count: number; forMs: number }[];
}

/** The part of a response that is read: a `Response`, or any object with a status and headers. */
export interface UpstreamAnswer {
  status: number;
  headers: Headers | Readonly<Record<string, string>>;
}

/** Minimum pause after a refusal, in milliseconds. This is also the pause after a refusal without a time. */
export const UNNAMED_PAUSE_MS = 1_000;
/** A count of remaining calls above this share of the quota is not reported to the limit. */
const LOW_SHARE = 0.1;
/** Maximum count of remaining calls that is low, if the upstream does not report the size of the quota. */
const LOW_COUNT = 5;

/**
 * Reads the upstream's limit from a response. A refusal is a 429, or a 503 with `Retry-After` in seconds or as a date. For other responses,
 * the function reads the count of remaining calls. The header fields are `RateLimit` and `RateLimit-Policy`
 * (draft-ietf-httpapi-ratelimit-headers), or the common spellings of `X-RateLimit-Remaining`, `-Reset` and `-Limit`. Returns undefined if
 * the response reports no limit, or a high count of remaining calls.
 */
export function wordOf({ status, headers }: UpstreamAnswer, now = Date.now()): Word | undefined {
  const fields = headers instanceof Headers ? headers : new Headers(headers);
  const askedMs = retryAfterMs(fields.get("retry-after"), now);
  const left = leftIn(fields, now);
  if (status === 429) return { refusedForMs: named(askedMs ?? (left[0]?.count === 0 ? left[0].forMs : undefined)) };
  if (status === 503 && askedMs !== undefined) return { refusedForMs: named(askedMs) };
  const low = left.filter(({ count, quota }) => count <= (quota === undefined ? LOW_COUNT : quota * LOW_SHARE));
  return low.length === 0 ? undefined : { left: low.map(({ count, forMs }) => ({ count, forMs })) };
}

function named(ms = 0): number | null {
  return ms < UNNAMED_PAUSE_MS ? null : ms;
}

interface Left {
  count: number;
  forMs: number;
  quota: number | undefined;
}

function leftIn(fields: Headers, now: number): Left[] {
  const counted = leftInField(fields) ?? [];
  for (const prefix of ["ratelimit", "x-ratelimit", "x-rate-limit"]) {
    const [count, reset, quota] = ["remaining", "reset", "limit"].map((name) => wholeOf(fields.get(`${prefix}-${name}`)));
    if (count !== undefined && reset !== undefined) counted.push({ count, forMs: fromReset(reset, now), quota });
  }
  // The quota with the smallest remaining share is first.
  return counted.toSorted((one, other) => shareOf(one) - shareOf(other) || other.forMs - one.forMs);
}

function shareOf({ count, quota }: Left): number {
  return quota === undefined ? count / (LOW_COUNT / LOW_SHARE) : count / Math.max(quota, 1);
}

/**
 * Parses fields such as `RateLimit: "burst";r=3;t=7, "day";r=900;t=4000`. The size of each quota comes from the item with the same name in
 * `RateLimit-Policy`.
 */
function leftInField(fields: Headers): Left[] | undefined {
  const limits = fields.get("ratelimit");
  if (limits === null) return undefined;
  const quotas = new Map(itemsOf(fields.get("ratelimit-policy") ?? "").map(({ name, values }) => [name, values.q]));
  return itemsOf(limits).flatMap(({ name, values: { r, t } }) =>
    r === undefined || t === undefined ? [] : [{ count: r, forMs: t * 1000, quota: quotas.get(name) }],
  );
}

/** Parses the items of a structured list. Each item is a name with whole-number parameters; all other parameters are ignored. */
function itemsOf(list: string): { name: string; values: Record<string, number> }[] {
  const items = list.matchAll(
    /(?:^|,)\s*("(?:[^"\\]|\\.)*"|[A-Za-z*][^\s;,="]*)((?:\s*;\s*[a-z*][a-z0-9_.*-]*(?:=(?:"(?:[^"\\]|\\.)*"|[^;,"\s]*))?)*)/g,
  );
  return [...items].map(([, name = "", parameters = ""]) => ({
    name: name.replaceAll('"', ""),
    values: Object.fromEntries(
      [...parameters.matchAll(/;\s*([a-z*][a-z0-9_.*-]*)=(\d{1,15})(?=[\s;,]|$)/g)].map(([, key = "", value]) => [key, Number(value)]),
    ),
  }));
}

function wholeOf(field: string | null): number | undefined {
  return field !== null && /^\s*\d{1,15}\s*$/.test(field) ? Number(field) : undefined;
}

/**
 * Returns the milliseconds until a reset. Usually the header contains seconds from now. A large value is a time since 1970, in seconds or
 * in milliseconds.
 */
function fromReset(reset: number, now: number): number {
  if (reset < 1e9) return reset * 1000;
  return Math.max((reset < 1e12 ? reset * 1000 : reset) - now, 0);
}
