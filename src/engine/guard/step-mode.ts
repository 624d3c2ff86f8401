import { MillraceError } from "../contract/errors.ts";
import { CLAIMED, type RecordedClass } from "../store/inbox/classes.ts";

/**
 * How the first attempt at a guarded step is made. `platform`: as a step of the platform's, which is billed, and shown by its dashboard.
 * `lean`: by the pass itself, and remembered by the inbox alone; from the second attempt on it is a step of the platform's, where waiting
 * costs nothing.
 */
export type StepMode = "platform" | "lean";

/** Errors: `config_invalid` for a word that is none. */
export function assertStepMode(mode: string | undefined, whose: string): void {
  if (mode === undefined || mode === "platform" || mode === "lean") return;
  throw new MillraceError("config_invalid", `${whose} says steps: "${mode}": it is "platform" or "lean".`);
}

/**
 * Whether an effect may be lean. One that records its outcome alone, and can be taken back, may not: if its run is cancelled in the middle
 * of it, only the platform knows that it was begun.
 */
export function goesLean(effect: { class: RecordedClass; undoable: boolean }): boolean {
  return !effect.undoable || effect.class === "commit" || CLAIMED.has(effect.class);
}
