import { MillraceError } from "../contract/errors.ts";
import type { Start } from "./course.ts";

/** One call of a guarded step: where it stands in the run. */
export interface Place {
  /** The step's name in the code. */
  name: string;
  /** Tells parallel calls of one step apart; "" for a step that runs once. */
  item: string;
  /** The name on the platform. */
  label: string;
  /** The label of the step that it belongs to, where the engine takes one more of its own for that: what failures are called by. */
  of?: string;
  /** True for a step with an inbox entry. */
  guarded?: boolean;
  /** True for one whose effect is its write. */
  commits?: boolean;
  /** Where the code names it; undefined for steps of the engine's own, which take others back. */
  start?: Start;
  /** Said by such a step itself. */
  position?: number;
  /** Whether the code could take it back. */
  undoable?: boolean;
  /** The first generation that counts here; default 1. */
  since?: number;
}

/** The error for a step that the code names where an earlier pass recorded another one. */
export function stepsChanged({ label }: Place, recorded: string): MillraceError {
  return new MillraceError(
    "nondeterministic_steps",
    `An earlier pass of this instance recorded "${recorded}" where the code now names "${label}" instead. Step names must be the same on every pass: use literals, and put data into the key.`,
    { step: label },
  );
}
