import { type ErrorDetail, MillraceError } from "./errors.ts";

/** Refuses an invalid declaration. `otherwise` is the error's message, with the fix. Errors: `config_invalid`. */
export function assertDeclared(isRight: boolean, otherwise: string, detail?: ErrorDetail): asserts isRight {
  if (!isRight) throw new MillraceError("config_invalid", otherwise, detail);
}

/** True for a schema of zod 4. A schema of zod 3 is refused, because it can only validate, and the engine also inspects schemas. */
export function isSchema(thing: unknown): boolean {
  return typeof thing === "object" && thing !== null && "_zod" in thing && isFunction((thing as { safeParse?: unknown }).safeParse);
}

export function isFields(thing: unknown): boolean {
  return typeof thing === "object" && thing !== null && !Array.isArray(thing);
}

export function isFunction(thing: unknown): boolean {
  return typeof thing === "function";
}

/** True for an integer within these bounds. */
export function isWhole(count: unknown, [least, most]: readonly [number, number]): boolean {
  return Number.isInteger(count) && (count as number) >= least && (count as number) <= most;
}
