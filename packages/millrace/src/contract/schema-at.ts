import type * as z from "zod";

type Schema = z.core.$ZodType;

/** The schemas at a key or position of a value, by its own schema; none if that has nothing there. */
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
