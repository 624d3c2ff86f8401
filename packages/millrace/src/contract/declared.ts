import { type ErrorDetail, MillraceError } from "./errors.ts";
import { type Fragment, fragment } from "./sql.ts";

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

/** A subset of a column's values, for code (`has`) and for statements: sql`status IN ${UNDER_WAY}`. */
export interface OneOf<Value extends string> extends Fragment {
  readonly values: readonly Value[];
  readonly has: (value: unknown) => boolean;
}

/** The values for which the predicate is true, from a table of facts about each value. */
export function thoseThat<Facts, Value extends string>(table: Readonly<Record<Value, Facts>>, is: (facts: Facts) => boolean): OneOf<Value> {
  const values = (Object.keys(table) as Value[]).filter((value) => is(table[value]));
  const all: ReadonlySet<unknown> = new Set(values);
  const list = fragment(`(${values.map((value) => `'${value}'`).join(", ")})`);
  return Object.assign(list, { values, has: (value: unknown) => all.has(value) });
}
