// Only data: the engine's calls that may fail. The failures themselves are in faults.ts.

/**
 * The engine's calls that may fail independently. `instance`: a status query to the platform about a run. `order`: the platform sends a
 * run an event, restarts it or ends it. `object`: a call to an object that receives events.
 */
export const BOUNDARIES = ["database", "recorder", "queue", "create", "instance", "order", "bucket", "object"] as const;
export type Boundary = (typeof BOUNDARIES)[number];

/**
 * The failure of a call. `before`: before its effect. `after`: after its effect, but reported as failed. `twice`: the effect happens
 * twice, and only the second is answered. `late`: after two seconds. `refused`: for overload, before its effect. `stale`: answered when
 * the step's timeout and its lease are over.
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

/** The number of calls that must fail. */
export const planned = (faults: readonly Fault[]): number => faults.reduce((sum, { times = 1 }) => sum + times, 0);

/** The number of calls of each boundary. */
export type Counts = Record<Boundary, number>;

/** Calls about one run, recognised by its name. */
export interface Watch {
  readonly counts: Counts;
  /** The number of calls that have failed as planned. */
  struck(): number;
  /** The time of the last failed call, as `Date.now()`; 0 if there was none. */
  struckUntil(): number;
  end(): void;
}
