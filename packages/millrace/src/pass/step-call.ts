import type { Start } from "./course.ts";

/** One call of a step in a workflow's code. */
export interface StepCall {
  /** The step's name in the code. */
  name: string;
  /** Tells parallel calls of one step apart; "" for a step that runs once. */
  item: string;
  /** The name on the platform. */
  label: string;
  /** The label of the step that it belongs to, where the engine takes one more of its own for that: what failures are called by. */
  of?: string;
  /** True for a step that only reads. */
  reads?: boolean;
  /** True for a step with an inbox entry. */
  guarded?: boolean;
  /** True for an effect of which its outcome is all that is recorded: that of a failed one nobody has. */
  acts?: boolean;
  /** True for one whose effect is its write. */
  commits?: boolean;
  /** True for one whose first attempt the pass makes itself, where it certainly is the first. */
  lean?: boolean;
  /** How far the pass had come when the code made the call; undefined for steps of the engine's own, which take others back. */
  start?: Start;
  /** Where its effect stands in the order in which effects are taken back; default: behind those that are recorded. */
  position?: number;
  /** Whether the code could take it back. */
  undoable?: boolean;
  /** The first generation that counts here; default 1. */
  since?: number;
}
