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
