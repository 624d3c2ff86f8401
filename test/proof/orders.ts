// Only data: operators' requests at a moment of a run. This file must not import from `src/`.

/**
 * An operator's request during a run. `cancel` undoes it, `stop` does not. `pause`: it is resumed seconds later. `restart`: its code starts
 * again. `release`: it starts without a slot, or before its time.
 */
export interface Order {
  verb: "cancel" | "stop" | "pause" | "restart" | "release";
  afterMs: number;
  /** Two operators send the request concurrently. */
  two?: boolean | undefined;
}

/** An operator's output for a step that failed. */
export const BY_HAND = "by hand";

/**
 * The time after the response to a cancel or a pause in which an effect may still start: 0.7 s (docs/limits.md), plus the delay of a busy
 * machine.
 */
export const SETTLES_MS = 1500;

/** The duration of the check that a paused run starts nothing. */
export const HOLDS_MS = 1500;
