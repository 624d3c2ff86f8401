import type { StepCall } from "../pass/step-call.ts";

/**
 * An undo throws this error at the first step without a recorded outcome, because it has nothing to undo after that step. The error unwinds
 * the workflow's code. If the code catches the error, the undo continues.
 */
export class EndOfRecord extends Error {
  override readonly name = "EndOfRecord";
}

export function endOfRecord({ label }: StepCall): never {
  throw new EndOfRecord(`"${label}" has no recorded effect to undo.`);
}
