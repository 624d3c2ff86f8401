// Data alone: operators' requests at a moment of a run. Nothing of `src/` may be imported here.

/**
 * An operator's request during a run: to cancel it, to cancel it without undo (`stop`), to pause it and resume it seconds later, or
 * to restart its code (`restart`).
 */
export interface Order {
  verb: "cancel" | "stop" | "pause" | "restart";
  afterMs: number;
  /** Two operators ask at once. */
  two?: boolean | undefined;
}

/** An operator's output for a step that failed. */
export const BY_HAND = "by hand";

/**
 * How long after the answer to a cancel or a pause an effect may still begin: 0.7 s (docs/limits.md), plus the delay of a busy
 * machine.
 */
export const SETTLES_MS = 1500;

/** For how long it is watched that a paused run does nothing. */
export const HOLDS_MS = 1500;
