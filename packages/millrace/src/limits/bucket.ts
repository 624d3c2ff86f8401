/** A token bucket, which allows at most `burst` calls at once. The bucket is refilled evenly by `refill` tokens per `periodMs`. */
export interface TokenBucket {
  burst: number;
  refill: number;
  periodMs: number;
}

/** The fill level of a bucket. `at` is the time of the latest take. */
export interface Level {
  tokens: number;
  at: number;
}

export function full({ burst }: TokenBucket): Level {
  return { tokens: burst, at: 0 };
}

/** Returns the earliest time, not before `at`, at which the bucket contains `cost` tokens. */
export function earliestIn(bucket: TokenBucket, level: Level, { cost, at }: { cost: number; at: number }): number {
  const from = Math.max(at, level.at);
  const missing = cost - tokensAt(bucket, level, from);
  return missing <= 0 ? from : from + Math.ceil(missing * (bucket.periodMs / bucket.refill));
}

/** Returns the level after a take of `cost` tokens at `at`, which must not be before the latest take. */
export function taken(bucket: TokenBucket, level: Level, { cost, at }: { cost: number; at: number }): Level {
  return { tokens: tokensAt(bucket, level, at) - cost, at };
}

/**
 * Returns the level after the return of `cost` tokens that were taken at `at`. If a later take exists, no tokens are returned, because the
 * bucket may have been full before that later take.
 */
export function returned(bucket: TokenBucket, level: Level, { cost, at }: { cost: number; at: number }): Level {
  return at !== level.at ? level : { ...level, tokens: Math.min(bucket.burst, level.tokens + cost) };
}

/**
 * Returns the level without the takes after `cutAt`. If such takes exist, the level at `cutAt` is unknown, so the bucket counts as empty at
 * `cutAt`.
 */
export function cutLevel(level: Level, cutAt: number): Level {
  return level.at <= cutAt ? level : { tokens: 0, at: cutAt };
}

/** Returns the tokens in a bucket at a time that is not before the latest take. */
export function tokensAt({ burst, refill, periodMs }: TokenBucket, { tokens, at }: Level, time: number): number {
  return Math.min(burst, tokens + (time - at) * (refill / periodMs));
}

/** The limit's reaction to an upstream's refusals. For a while, calls are spaced evenly, at a reduced share of the limit's rate. */
export interface Narrowing {
  /** The share of the rate that is allowed at `since`. After `since` the share grows. */
  share: number;
  since: number;
  /** The earliest time of the next call. */
  nextAt: number;
  /** Refusals before this time are ignored, because the refused calls were already in progress at the last counted refusal. */
  heardUntil: number;
}

/** The minimum share of the rate. Each refusal halves the share, but not below this minimum. */
const LEAST_SHARE = 0.02;
/** Time in which the share grows from 0 to 1, in milliseconds. From 0.5, the share reaches 1 in half of this time. */
const WIDENING_MS = 60_000;
/** Assumed duration of a call, in milliseconds: refusals within this time after a refusal count as the same refusal. */
const UNDER_WAY_MS = 1_000;

/**
 * Halves the share, starting at `resumeAt`. If the refused call was already in progress at the last counted refusal, the share is not
 * changed.
 */
export function narrowed(before: Narrowing | undefined, now: number, resumeAt: number): Narrowing {
  if (before && now < before.heardUntil) return { ...before, since: Math.max(before.since, resumeAt) };
  const share = Math.max(LEAST_SHARE, shareAt(before, now) / 2);
  return { share, since: resumeAt, nextAt: resumeAt, heardUntil: Math.max(resumeAt, now + UNDER_WAY_MS) };
}

/** Returns the share of the rate at the given time. The share grows linearly. */
export function shareAt(narrowing: Narrowing | undefined, time: number): number {
  if (!narrowing) return 1;
  return Math.min(1, narrowing.share + Math.max(0, time - narrowing.since) / WIDENING_MS);
}

/** Returns the earliest time, not before `at`, at which the next call is allowed. */
export function spaced(narrowing: Narrowing | undefined, at: number): number {
  if (!narrowing) return at;
  const wholeAt = narrowing.since + (1 - narrowing.share) * WIDENING_MS;
  return Math.max(at, Math.min(narrowing.nextAt, wholeAt));
}

/**
 * Returns the narrowing after `cost` calls at `at`, or undefined when the full rate is reached. `rate` is the full rate per millisecond.
 */
export function spacing(narrowing: Narrowing | undefined, { cost, at }: { cost: number; at: number }, rate: number): Narrowing | undefined {
  const share = shareAt(narrowing, at);
  if (!narrowing || share >= 1) return undefined;
  return { ...narrowing, nextAt: at + Math.ceil(cost / (rate * share)) };
}
