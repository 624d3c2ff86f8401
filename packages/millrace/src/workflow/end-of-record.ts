import type { StepCall } from "../pass/step-call.ts";

/**
 * Thrown by an undo at the first step without a recorded outcome: there is nothing behind it to take back. Unwinds the workflow's code; if
 * that catches it, the undo goes on through it.
 */
export class EndOfRecord extends Error {
  override readonly name = "EndOfRecord";
}

/** Ends the undo's way through the code at this step. */
export function endOfRecord({ label }: StepCall): never {
  throw new EndOfRecord(`"${label}" has no recorded effect to undo.`);
}
