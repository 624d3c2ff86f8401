import { type ErrorDetail, MillraceError } from "./errors.ts";

/** Refuses a declaration in which something is wrong, in a sentence that says what to do. Errors: `config_invalid`. */
export function assertDeclared(isRight: boolean, otherwise: string, detail?: ErrorDetail): asserts isRight {
  if (!isRight) throw new MillraceError("config_invalid", otherwise, detail);
}

/** Whether a number is whole, and within these bounds. */
export function isWhole(count: unknown, [least, most]: readonly [number, number]): boolean {
  return Number.isInteger(count) && (count as number) >= least && (count as number) <= most;
}
