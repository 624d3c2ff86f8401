/** A difference between two records of the same item. */
export interface Divergence {
  /** The kind of the divergence, which is a key of the check's `kinds`. */
  readonly kind: string;
  /** The id of an instance or message, at most 200 characters; a digest of the name for an item with a name that a user chose. */
  readonly what: string;
  /** The tenant; null when the record belongs to no tenant. */
  readonly tenantId: string | null;
  /** The start of a scan's slice whose first row has this divergence. */
  readonly place: string;
  /**
   * The conflicting values of both records: statuses, names of workflows and queues, counts, ages. The value never contains a tenant's
   * names, subjects or payloads.
   */
  readonly detail: string;
}

export interface Checked {
  readonly found: readonly Divergence[];
  /** The start of the scan's next slice; null at the end of the scan. */
  readonly next: string | null;
}

/** A kind of divergence: one way in which two records can differ. */
export interface Kind {
  /** The description of the difference for operators, as a sentence. */
  readonly says: string;
  /**
   * The repair, which is called after a second check has found the same divergence. The repair may be called more than once, and must
   * change nothing if the records already agree. Without a repair the divergence is only counted and reported.
   */
  readonly mend?: (env: Cloudflare.Env, found: Divergence) => Promise<unknown>;
}

/** A comparison of two sets of records, which scans the first set slice by slice. */
export interface Check {
  /** The check's unique name, under which the keeper stores the position of its scan. */
  readonly name: string;
  /** Hours from the end of one scan to the start of the next scan. */
  readonly everyHours: number;
  /** The kinds of divergence. Names are lower case words with underscores, unique among all checks. */
  readonly kinds: Readonly<Record<string, Kind>>;
  /**
   * Compares a bounded part of the records, from `from` (null: the beginning) to `next`. The call only reads. Changes during the read may
   * cause a false finding. Therefore a finding counts only after a later slice from its `place` finds the same divergence again.
   */
  readonly slice: (env: Cloudflare.Env, from: string | null) => Promise<Checked>;
}
