import type * as z from "zod";

type Schema = z.core.$ZodType;

/** The schemas at a key or index, according to the schema of the whole value; empty if that schema has no such key or index. */
export function schemasAt(schema: Schema, key: PropertyKey): Schema[] {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "object":
      return [Object.hasOwn(def.shape, key) ? def.shape[key as string] : def.catchall].filter((one) => one !== undefined) as Schema[];
    case "array":
      return [def.element];
    case "record":
      return [def.valueType];
    case "tuple":
      return [def.items[Number(key)] ?? def.rest].filter((one) => one !== null && one !== undefined);
    default:
      return [];
  }
}
