import { CLAIMED, type RecordedClass } from "../store/inbox/classes.ts";

/**
 * True if a step may run inline. False for an undoable effect that records only its outcome. If its run is cancelled during the effect,
 * only a platform step shows that the effect began.
 */
export function goesLean(effect: { class: RecordedClass; undoable: boolean }): boolean {
  return !effect.undoable || effect.class === "commit" || CLAIMED.has(effect.class);
}
