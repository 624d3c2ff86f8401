/** A disagreement between two records of one thing. */
export interface Divergence {
  /** One of the check's `kinds`. */
  readonly kind: string;
  /** Which thing: an instance's id, a message's; at most 200 characters. A digest for what has a name that people gave it. */
  readonly what: string;
  /** Null for what is nobody's in particular. */
  readonly tenantId: string | null;
  /** Where a slice begins that meets it first. */
  readonly place: string;
  /** What each side says: statuses, names of workflows and queues, counts, ages. Never a text, a subject or a payload of a tenant's. */
  readonly detail: string;
}

/** What one slice of a walk has found. */
export interface Checked {
  readonly found: readonly Divergence[];
  /** Where the next slice begins; null when the walk is over. */
  readonly next: string | null;
}

/** A way in which two records can disagree. */
export interface Kind {
  /** The disagreement, in a sentence for people. */
  readonly says: string;
  /**
   * Makes them agree, by a statement that changes nothing where they already do: it is called when a second look has found the same, and
   * may be called again. Without it the disagreement is counted, and left to a person.
   */
  readonly mend?: (env: Cloudflare.Env, found: Divergence) => Promise<unknown>;
}

/** What is held against what: a walk through one of the two, slice by slice. */
export interface Check {
  /** Unique: the keeper remembers by it where a walk stands. */
  readonly name: string;
  /** Hours from the end of one walk to the beginning of the next. */
  readonly everyHours: number;
  /** What it can find. Names are lower case words with underscores, and unique among all checks. */
  readonly kinds: Readonly<Record<string, Kind>>;
  /**
   * Compares a bounded part, which begins at a place (null: at the beginning) and ends at `next`. It only reads. What moves while it reads
   * may be found: it counts when a later slice from its `place` finds it again.
   */
  readonly slice: (env: Cloudflare.Env, from: string | null) => Promise<Checked>;
}
