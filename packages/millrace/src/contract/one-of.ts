import { type Fragment, fragment } from "./sql.ts";

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
