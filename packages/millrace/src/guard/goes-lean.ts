import { CLAIMED, type RecordedClass } from "../store/inbox/classes.ts";

/**
 * Whether an effect may be lean. One that records its outcome alone, and can be taken back, may not: if its run is cancelled in the middle
 * of it, only the platform knows that it was begun.
 */
export function goesLean(effect: { class: RecordedClass; undoable: boolean }): boolean {
  return !effect.undoable || effect.class === "commit" || CLAIMED.has(effect.class);
}
