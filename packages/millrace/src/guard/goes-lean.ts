import { CLAIMED, type RecordedClass } from "../store/inbox/classes.ts";

/**
 * True if a step may run inline. False for an undoable effect that records only its outcome. If a run is cancelled during such an effect,
 * only a platform step shows that the effect began.
 */
export function goesLean(effect: { class: RecordedClass; undoable: boolean }): boolean {
  return !effect.undoable || effect.class === "commit" || CLAIMED.has(effect.class);
}
