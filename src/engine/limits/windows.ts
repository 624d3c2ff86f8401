/** At most `limit` in any stretch of time as long as `periodMs`. */
export interface Window {
  limit: number;
  periodMs: number;
}

/** What was granted under one window: how many in which bucket of time, oldest first. */
export type Counts = [bucket: number, count: number][];

/** A period is counted in so many buckets: what is forgotten leaves in steps of a fortieth of it, always late and never early. */
const BUCKETS = 40;

/**
 * The earliest time from `at` on at which `cost` more fits into the window. Everything counted must lie at or before `at`. `marginMs`
 * lengthens the period: calls do not arrive in the order and at the distance in which they were granted.
 */
export function earliest(window: Window, counts: Counts, at: number, cost: number, marginMs: number): number {
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

/** The counts with `cost` more at `at`, without what no later question can still see. */
export function counted(window: Window, counts: Counts, at: number, cost: number, now: number, marginMs: number): Counts {
  const width = widthOf(window);
  const bucket = Math.floor(at / width);
  const kept = counts.filter(([each]) => (each + 1) * width + window.periodMs + marginMs > now);
  const last = kept.at(-1);
  if (last?.[0] === bucket) return [...kept.slice(0, -1), [bucket, last[1] + cost]];
  return [...kept, [bucket, cost]];
}

function widthOf({ periodMs }: Window): number {
  return Math.max(1, Math.floor(periodMs / BUCKETS));
}
