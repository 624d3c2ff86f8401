/** A difference between two records of the same item. */
export interface Divergence {
  /** The kind of the divergence: one of the check's `kinds`. */
  readonly kind: string;
  /** The id of an instance or message, at most 200 characters. An item whose name a user gave has a digest instead. */
  readonly what: string;
  /** The tenant; null when the record belongs to no tenant. */
  readonly tenantId: string | null;
  /** The start of a slice of the scan in which this divergence is the first finding. */
  readonly place: string;
  /**
   * The conflicting values of both records: statuses, names of workflows and queues, counts, ages. The text never contains a tenant's
   * texts, subjects or payloads.
   */
  readonly detail: string;
}

export interface Checked {
  readonly found: readonly Divergence[];
  /** The start of the scan's next slice; null at the end of the scan. */
  readonly next: string | null;
}

/** A way in which two records can differ. */
export interface Kind {
  /** The description of the difference for operators, as a sentence. */
  readonly says: string;
  /**
   * The repair, which is called when a second check has found the same divergence, possibly more than once. The repair must change nothing
   * when the records already agree. Without a repair the divergence is only counted and reported.
   */
  readonly mend?: (env: Cloudflare.Env, found: Divergence) => Promise<unknown>;
}

/** A comparison of two records: a scan of one of them, slice by slice. */
export interface Check {
  /** The check's unique name, under which the keeper stores the position of its scan. */
  readonly name: string;
  /** Hours from the end of one scan to the start of the next. */
  readonly everyHours: number;
  /** The kinds of divergence. Names are lower case words with underscores, unique among all checks. */
  readonly kinds: Readonly<Record<string, Kind>>;
  /**
   * Compares a bounded part of the records, from `from` (null: the beginning) to `next`. The call only reads. Changes during the read may
   * cause a false finding: a finding counts when a later slice from its `place` finds it again.
   */
  readonly slice: (env: Cloudflare.Env, from: string | null) => Promise<Checked>;
}
