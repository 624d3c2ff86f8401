// Data alone: the engine's calls that may fail. The failures themselves are in faults.ts.

/**
 * The engine's calls that may fail independently. `instance`: the platform is asked about a run; `order`: it gets an event for one,
 * or restarts or ends it; `object`: one that gets events.
 */
export const BOUNDARIES = ["database", "recorder", "queue", "create", "instance", "order", "bucket", "object"] as const;
export type Boundary = (typeof BOUNDARIES)[number];

/**
 * How a call fails: `before` it had its effect, or `after` it (reported as failed nevertheless); `twice`: it has its effect two
 * times, and only the second is answered; `late`: after two seconds; `refused`: for overload, before it had its effect; `stale`: it
 * is answered when the step's time and its lease are over.
 */
export const WAYS = ["before", "after", "twice", "late", "refused", "stale"] as const;

/** The phases of an instance: its run, a restart from the beginning, and an undo. */
export const PHASES = ["run", "restart", "undo"] as const;
export type Phase = (typeof PHASES)[number];

/** Calls that fail: the nth of a run's calls at a boundary, from 0, in one phase, and some after it. */
export interface Fault {
  phase: Phase;
  boundary: Boundary;
  nth: number;
  way: (typeof WAYS)[number];
  /** The number of consecutive calls. Default: one. */
  times?: number | undefined;
}

/** The number of calls that shall fail. */
export const planned = (faults: readonly Fault[]): number => faults.reduce((sum, { times = 1 }) => sum + times, 0);

/** The number of calls of each boundary. */
export type Counts = Record<Boundary, number>;

/** Calls about one run: those that name it. */
export interface Watch {
  readonly counts: Counts;
  /** The number of calls that have failed as planned. */
  struck(): number;
  /** The end of the last of them, as `Date.now()`; 0 while there was none. */
  struckUntil(): number;
  end(): void;
}
