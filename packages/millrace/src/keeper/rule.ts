/** What is removed when it has become old. */
export interface Retention {
  /** What it is about, for the log: a table, a bucket. Unique: the keeper remembers by it where a pass stands. */
  readonly name: string;
  /** Days that it stays. */
  readonly keepDays: number;
  /** Hours from the end of one pass to the next. Default 1; longer for a rule that must read all there is. */
  readonly everyHours?: number;
  /**
   * Removes one slice of what is older than `keepMs`, small enough not to hold the database for long. Answers how much it removed,
   * 0 when none is left; or, for a rule that walks through everything, where its next slice begins, which it is then given as `from`
   * (null: at the beginning). Safe to repeat, from any place.
   */
  readonly prune: (env: Cloudflare.Env, keepMs: number, from: string | null) => Promise<number | Slice>;
}

/** One slice of a walk. */
export interface Slice {
  readonly removed: number;
  /** Null when the walk is over. */
  readonly next: string | null;
}
