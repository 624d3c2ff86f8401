import type * as z from "zod";

type Schema = z.core.$ZodType;

/**
 * Where in a schema stands a `transform`, a `preprocess` or a codec, by the path of its field; undefined where nothing does. What comes out
 * the same when it is applied to its own outcome, such as a default or `trim()`, is none of these. For when all files are loaded: an object
 * schema whose fields are read keeps for good what its getters answer then.
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

/** What a schema is made of, each with the name of its field; "" for what has the same value before it. */
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

/** Those that are there. What a getter cannot name is not. */
function present(name: () => [key: string, inner: Schema | null | undefined][]): [key: string, inner: Schema][] {
  try {
    return name().filter((one): one is [string, Schema] => one[1] !== null && one[1] !== undefined);
  } catch {
    return [];
  }
}
