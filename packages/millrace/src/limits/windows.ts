/** A sliding window, which allows at most `limit` calls within any period of `periodMs`. */
export interface Window {
  limit: number;
  periodMs: number;
}

/** The grants of one window, counted per short interval of time. The oldest interval is first. */
export type Counts = [bucket: number, count: number][];

/** A window with its grants. */
export interface Granted {
  window: Window;
  counts: Counts;
  /**
   * Milliseconds by which the period is lengthened, because the upstream may get calls in a different order and at different intervals than
   * granted.
   */
  marginMs: number;
}

/** A request: the number of permits and the time. */
export interface Take {
  cost: number;
  at: number;
}

/**
 * The number of intervals per period. All grants of an interval leave the window together, at least one period after each of these grants.
 */
const BUCKETS = 40;

/**
 * Returns the earliest time, not before `at`, at which the window allows `cost` further permits. All counts must be for times up to `at`.
 */
export function earliest({ window, counts, marginMs }: Granted, { cost, at }: Take): number {
  const width = widthOf(window);
  const span = window.periodMs + marginMs;
  let used = counts.reduce((sum, [, count]) => sum + count, 0);
  let time = at;
  for (const [bucket, count] of counts) {
    const gone = (bucket + 1) * width + span;
    if (gone > time && used + cost <= window.limit) return time;
    time = Math.max(time, gone);
    used -= count;
  }
  return time;
}

/** True if the window allows `cost` further permits at `at`. The check includes the grants before `at` and the slots after `at`. */
export function fits({ window, counts, marginMs }: Granted, { cost, at }: Take): boolean {
  const width = widthOf(window);
  const bucket = Math.floor(at / width);
  // Two intervals with at most this distance can contain grants within the same period.
  const reach = Math.ceil((window.periodMs + marginMs) / width);
  const near = counts.filter(([each]) => Math.abs(each - bucket) <= reach);
  const starts = [bucket, ...near.map(([each]) => each)].filter((each) => each <= bucket);
  return starts.every((start) => {
    const used = near.reduce((sum, [each, count]) => (each >= start && each <= start + reach ? sum + count : sum), 0);
    return used + cost <= window.limit;
  });
}

/**
 * Returns the number of permits that the window still allows at `at`; negative if too many permits were counted. All counts must be for
 * times up to `at`.
 */
export function room({ window, counts, marginMs }: Granted, at: number): number {
  const width = widthOf(window);
  const used = counts.reduce((sum, [bucket, count]) => ((bucket + 1) * width + window.periodMs + marginMs > at ? sum + count : sum), 0);
  return window.limit - used;
}

/** Returns the counts for one period's length, without the intervals that start after `cutAt`. */
export function cutCounts(counts: Counts, periodMs: number, cutAt: number): Counts {
  return counts.filter(([bucket]) => bucket * widthOf({ periodMs }) <= cutAt);
}

/**
 * Returns the counts after the addition of `cost` permits at `at`; a negative `cost` reduces the counts. Counts that no request after `now`
 * can need are removed.
 */
export function counted({ window, counts, marginMs }: Granted, { cost, at }: Take, now: number): Counts {
  const width = widthOf(window);
  const bucket = Math.floor(at / width);
  const kept = new Map(counts.filter(([each]) => (each + 1) * width + window.periodMs + marginMs > now));
  const sum = (kept.get(bucket) ?? 0) + cost;
  if (sum > 0) kept.set(bucket, sum);
  else kept.delete(bucket);
  return [...kept].sort(([one], [other]) => one - other);
}

function widthOf({ periodMs }: Pick<Window, "periodMs">): number {
  return Math.max(1, Math.floor(periodMs / BUCKETS));
}
