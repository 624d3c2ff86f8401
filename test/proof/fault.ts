// Data alone: what may fail of the calls that the engine makes. What lets them fail is in faults.ts.

/**
 * Where the engine leaves its own code for something that may fail by itself. `instance`: the platform is asked of a run; `order`: it is
 * told something for one, or to restart or end it; `object`: one that events are told to.
 */
export const BOUNDARIES = ["database", "recorder", "queue", "create", "instance", "order", "bucket", "object"] as const;
export type Boundary = (typeof BOUNDARIES)[number];

/**
 * How a call fails: `before` it had its effect, or `after` it (reported as failed all the same); `twice`: it has its effect two times, and
 * only the second is answered; `late`: after two seconds; `refused`: for overload, before it had its effect; `stale`: it is answered when
 * the step's time and the lease of what it began are over.
 */
export const WAYS = ["before", "after", "twice", "late", "refused", "stale"] as const;

/** What an instance goes through: its run, a restart from the beginning, and an undo. */
export const PHASES = ["run", "restart", "undo"] as const;
export type Phase = (typeof PHASES)[number];

/** Calls that fail: the nth of those that a run makes at a boundary, from 0, in one phase, and some behind it. */
export interface Fault {
  phase: Phase;
  boundary: Boundary;
  nth: number;
  way: (typeof WAYS)[number];
  /** How many calls in a row. Default: one. */
  times?: number | undefined;
}

/** How many calls shall fail. */
export const planned = (faults: readonly Fault[]): number => faults.reduce((sum, { times = 1 }) => sum + times, 0);

/** How many calls of each boundary were made. */
export type Counts = Record<Boundary, number>;

/** Calls about one run: those that name it. */
export interface Watch {
  readonly counts: Counts;
  /** How many calls have failed as they should. */
  struck(): number;
  /** When the last of them was over, as `Date.now()` says it; 0 while there was none. */
  struckUntil(): number;
  end(): void;
}
