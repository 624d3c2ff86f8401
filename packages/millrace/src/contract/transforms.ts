import type * as z from "zod";

type Schema = z.core.$ZodType;

/**
 * The path of a `transform`, `preprocess` or codec in a schema; undefined if the schema contains none of them. Idempotent changes, such as
 * a default or `trim()`, do not count. Call this function after all files are loaded, because reading an object schema's fields fixes the
 * results of their getters.
 */
export function transformIn(schema: Schema, path = "payload", seen: Set<Schema> = new Set()): string | undefined {
  if (seen.has(schema)) return undefined;
  seen.add(schema);
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if (def.type === "transform" || (def.type === "pipe" && "transform" in def)) return path;
  for (const [key, inner] of within(def)) {
    const found = transformIn(inner, key === "" ? path : `${path}.${key}`, seen);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The parts of a schema, each with the name of its field; "" for a wrapper of the same value. */
function within(def: z.core.$ZodTypes["_zod"]["def"]): [key: string, inner: Schema][] {
  switch (def.type) {
    case "object":
      return present(() => [...Object.entries(def.shape), ["*", def.catchall]]);
    case "array":
      return [["*", def.element]];
    case "record":
    case "map":
      return [
        ["*", def.keyType],
        ["*", def.valueType],
      ];
    case "set":
      return [["*", def.valueType]];
    case "tuple":
      return present(() => [...Object.entries(def.items), ["*", def.rest]]);
    case "union":
      return def.options.map((one) => ["", one]);
    case "intersection":
      return [
        ["", def.left],
        ["", def.right],
      ];
    case "pipe":
      return [
        ["", def.in],
        ["", def.out],
      ];
    case "lazy":
      return present(() => [["", def.getter()]]);
    default:
      return "innerType" in def ? [["", def.innerType]] : [];
  }
}

/** The parts of a schema that exist. A part whose getter throws counts as missing. */
function present(name: () => [key: string, inner: Schema | null | undefined][]): [key: string, inner: Schema][] {
  try {
    return name().filter((one): one is [string, Schema] => one[1] !== null && one[1] !== undefined);
  } catch {
    return [];
  }
}
