import type { Start } from "./course.ts";

export interface StepCall {
  name: string;
  /** Distinguishes the calls of a step that the code calls more than once; "" for a step that the code calls once. */
  item: string;
  /** The name of the step on the platform. */
  label: string;
  /** For a platform step of the engine, the label of the code's step to which the platform step belongs. Failures have this label. */
  of?: string;
  reads?: boolean;
  /** True for a step with an inbox entry. */
  guarded?: boolean;
  /** True for an effect of which only the outcome is recorded, so that a failed attempt has no record. */
  acts?: boolean;
  /** True for a call of `step.commit`. */
  commits?: boolean;
  /** True if the first attempt is inline, unless an earlier replay may have made an attempt. */
  lean?: boolean;
  /** The position in the replay at which the code called the step; undefined for undo steps, which the engine creates. */
  start?: Start;
  /** The position of the effect in the order of undoing. Default: after the recorded effects. */
  position?: number;
  undoable?: boolean;
  /** The first generation of the step's effect that the step considers. Default: 1. */
  since?: number;
}
