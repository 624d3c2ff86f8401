/** A limit's answer to refusals: for a while calls are spaced evenly, at a share of its rate. */
export interface Narrowing {
  /** The share at `since`; it grows from then on. */
  share: number;
  since: number;
  /** Before then nothing goes. */
  nextAt: number;
  /** Refusals before then are of calls that were under way at the last one, and say nothing new. */
  heardUntil: number;
}

/** A refusal halves the share, but never to less than this. */
const LEAST_SHARE = 0.02;
/** How long the share takes from nothing to the whole, in milliseconds: 0.5 is whole again after half of it. */
const WIDENING_MS = 60_000;
/** Calls take about this long, in milliseconds: as long after a refusal others are answered the same. */
const UNDER_WAY_MS = 1_000;

/** Halves the share: from `resumeAt` on, calls go at it. A refusal that belongs to the last one changes nothing. */
export function narrowed(before: Narrowing | undefined, now: number, resumeAt: number): Narrowing {
  if (before && now < before.heardUntil) return { ...before, since: Math.max(before.since, resumeAt) };
  const share = Math.max(LEAST_SHARE, shareAt(before, now) / 2);
  return { share, since: resumeAt, nextAt: resumeAt, heardUntil: Math.max(resumeAt, now + UNDER_WAY_MS) };
}

/** The share of the rate that is given at a time: it grows evenly, whatever it is. */
export function shareAt(narrowing: Narrowing | undefined, time: number): number {
  if (!narrowing) return 1;
  return Math.min(1, narrowing.share + Math.max(0, time - narrowing.since) / WIDENING_MS);
}

/** The earliest time from `at` on at which the next call may go. */
export function spaced(narrowing: Narrowing | undefined, at: number): number {
  if (!narrowing) return at;
  const wholeAt = narrowing.since + (1 - narrowing.share) * WIDENING_MS;
  return Math.max(at, Math.min(narrowing.nextAt, wholeAt));
}

/** After `cost` at `at`, by a limit that gives so many per millisecond when it is whole; undefined once it is. */
export function spacing(narrowing: Narrowing | undefined, { cost, at }: { cost: number; at: number }, rate: number): Narrowing | undefined {
  const share = shareAt(narrowing, at);
  if (!narrowing || share >= 1) return undefined;
  return { ...narrowing, nextAt: at + Math.ceil(cost / (rate * share)) };
}
