import { type ErrorDetail, MillraceError } from "./errors.ts";

/** Refuses a declaration in which something is wrong, in a sentence that says what to do. Errors: `config_invalid`. */
export function assertDeclared(isRight: boolean, otherwise: string, detail?: ErrorDetail): asserts isRight {
  if (!isRight) throw new MillraceError("config_invalid", otherwise, detail);
}

/** Whether a thing is a schema of zod 4, which is looked into: one of zod 3 can check a value, and no more. */
export function isSchema(thing: unknown): boolean {
  return typeof thing === "object" && thing !== null && "_zod" in thing && isFunction((thing as { safeParse?: unknown }).safeParse);
}

/** Whether a thing is an object with fields, and no list. */
export function isFields(thing: unknown): boolean {
  return typeof thing === "object" && thing !== null && !Array.isArray(thing);
}

export function isFunction(thing: unknown): boolean {
  return typeof thing === "function";
}

/** Whether a number is whole, and within these bounds. */
export function isWhole(count: unknown, [least, most]: readonly [number, number]): boolean {
  return Number.isInteger(count) && (count as number) >= least && (count as number) <= most;
}
