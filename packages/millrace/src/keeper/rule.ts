export interface Retention {
  /**
   * The rule's name in the log: a table or a bucket. The name is unique, because the keeper stores the position of the scan under this
   * name.
   */
  readonly name: string;
  readonly keepDays: number;
  /** Hours from the end of one scan to the start of the next. Default: 1. The interval is longer for a rule that must read all rows. */
  readonly everyHours?: number;
  /**
   * Removes one slice of rows older than `keepMs`, which is small enough not to block the database. Returns the number of removed rows, or
   * 0 when no old row remains. A rule that scans returns the start of its next slice. The next call gets this start as `from`; null means
   * the beginning. A call can be repeated safely from any position.
   */
  readonly prune: (env: Cloudflare.Env, keepMs: number, from: string | null) => Promise<number | Slice>;
}

/** One slice of a scan. */
export interface Slice {
  readonly removed: number;
  /** The position at which the next slice starts; null at the end of the scan. */
  readonly next: string | null;
}
