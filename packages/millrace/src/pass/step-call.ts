import type { Start } from "./course.ts";

export interface StepCall {
  name: string;
  /** Distinguishes parallel calls of one step; "" for a step that runs once. */
  item: string;
  /** The name on the platform. */
  label: string;
  /** For a platform step that the engine adds: the label of the step of the code, which failures name. */
  of?: string;
  reads?: boolean;
  /** True for a step with an inbox entry. */
  guarded?: boolean;
  /** True for an effect that is recorded only by its outcome: a failed attempt has no record. */
  acts?: boolean;
  /** True for a commit. */
  commits?: boolean;
  /** True if the first attempt is inline, unless an earlier replay may have made one. */
  lean?: boolean;
  /** Position in the replay when the code made the call. Undefined for undo steps, which the engine creates. */
  start?: Start;
  /** Position in the order of undoing; default: after the recorded ones. */
  position?: number;
  undoable?: boolean;
  /** The first generation that counts; default 1. */
  since?: number;
}
