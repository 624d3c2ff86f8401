// Data alone: what operators ask for at a moment of a run. Nothing of `src/` may be imported here.

/**
 * What an operator asks for while a run is under way: to cancel it, to cancel it and leave what it did (`stop`), to pause it and resume it
 * seconds later, or to have it pass through its code anew (`restart`).
 */
export interface Order {
  verb: "cancel" | "stop" | "pause" | "restart";
  afterMs: number;
  /** Two operators ask at once. */
  two?: boolean | undefined;
}

/** The output that a person gives for a step that failed. */
export const BY_HAND = "by hand";

/** How long behind the answer to a cancel or a pause an effect may still begin: 0.7 s (docs/limits.md), and what a busy machine takes. */
export const SETTLES_MS = 1500;

/** For how long it is watched that a paused run does nothing. */
export const HOLDS_MS = 1500;
