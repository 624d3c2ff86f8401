/** A token bucket: at most `burst` calls at once; the bucket is refilled evenly by `refill` tokens per `periodMs`. */
export interface TokenBucket {
  burst: number;
  refill: number;
  periodMs: number;
}

/** The fill level of a bucket. All tokens were taken at `at` or earlier. */
export interface Level {
  tokens: number;
  at: number;
}

export function full({ burst }: TokenBucket): Level {
  return { tokens: burst, at: 0 };
}

/** The earliest time from `at` on at which the bucket holds `cost` tokens. */
export function earliestIn(bucket: TokenBucket, level: Level, { cost, at }: { cost: number; at: number }): number {
  const from = Math.max(at, level.at);
  const missing = cost - tokensAt(bucket, level, from);
  return missing <= 0 ? from : from + Math.ceil(missing * (bucket.periodMs / bucket.refill));
}

/** The level after `cost` tokens are taken at `at`, which is not before the last take. */
export function taken(bucket: TokenBucket, level: Level, { cost, at }: { cost: number; at: number }): Level {
  return { tokens: tokensAt(bucket, level, at) - cost, at };
}

/**
 * The level after the return of `cost` tokens taken at `at`. After a later take no tokens are returned, because the bucket might have been
 * full before that.
 */
export function returned(bucket: TokenBucket, level: Level, { cost, at }: { cost: number; at: number }): Level {
  return at !== level.at ? level : { ...level, tokens: Math.min(bucket.burst, level.tokens + cost) };
}

/** The level if takes after `cutAt` are not used. The level at `cutAt` is unknown, so the bucket counts as empty then. */
export function cutLevel(level: Level, cutAt: number): Level {
  return level.at <= cutAt ? level : { tokens: 0, at: cutAt };
}

/** The tokens in a bucket at a time that is not before the last take. */
export function tokensAt({ burst, refill, periodMs }: TokenBucket, { tokens, at }: Level, time: number): number {
  return Math.min(burst, tokens + (time - at) * (refill / periodMs));
}
