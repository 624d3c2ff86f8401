import type { StepCall } from "../pass/step-call.ts";

/**
 * An undo throws this error at the first step without a recorded outcome, because no effect after that step needs an undo. The error
 * unwinds the workflow's code. If the code catches the error, the undo continues.
 */
export class EndOfRecord extends Error {
  override readonly name = "EndOfRecord";
}

export function endOfRecord({ label }: StepCall): never {
  throw new EndOfRecord(`"${label}" has no recorded effect to undo.`);
}
