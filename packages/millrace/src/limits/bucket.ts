/** At most `burst` at once, and `refill` more every `periodMs`, evenly. */
export interface TokenBucket {
  burst: number;
  refill: number;
  periodMs: number;
}

/** How full a bucket is. Everything was taken from it at or before `at`. */
export interface Level {
  tokens: number;
  at: number;
}

/** A bucket that nothing was taken from. */
export function full({ burst }: TokenBucket): Level {
  return { tokens: burst, at: 0 };
}

/** The earliest time from `at` on at which the bucket holds `cost` tokens. */
export function earliestIn(bucket: TokenBucket, level: Level, { cost, at }: { cost: number; at: number }): number {
  const from = Math.max(at, level.at);
  const missing = cost - tokensAt(bucket, level, from);
  return missing <= 0 ? from : from + Math.ceil(missing * (bucket.periodMs / bucket.refill));
}

/** The level with `cost` tokens taken at `at`, which is no earlier than the last take. */
export function taken(bucket: TokenBucket, level: Level, { cost, at }: { cost: number; at: number }): Level {
  return { tokens: tokensAt(bucket, level, at) - cost, at };
}

/** The level with `cost` tokens back that were taken at `at`: none where others took since, because it might have run over before. */
export function returned(bucket: TokenBucket, level: Level, { cost, at }: { cost: number; at: number }): Level {
  return at !== level.at ? level : { ...level, tokens: Math.min(bucket.burst, level.tokens + cost) };
}

/** The level when what was taken after `cutAt` is not used: it held something then, and is counted as empty. */
export function cutLevel(level: Level, cutAt: number): Level {
  return level.at <= cutAt ? level : { tokens: 0, at: cutAt };
}

/** How many tokens a bucket holds at a time that is no earlier than the last take. */
export function tokensAt({ burst, refill, periodMs }: TokenBucket, { tokens, at }: Level, time: number): number {
  return Math.min(burst, tokens + (time - at) * (refill / periodMs));
}
