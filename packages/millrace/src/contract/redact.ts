import * as z from "zod";

type Schema = z.core.$ZodType;

export const REDACTED = "[redacted]";

/**
 * A value with its sensitive fields redacted, in objects, lists, records and unions of its schema. Next to a marked field, unknown fields
 * are redacted as well, because an unknown field may be the marked field under a wrong name. A value that does not fit a schema with marks
 * is redacted as a whole. Calls `withheld` with each redacted value.
 */
export function redact(schema: Schema, value: unknown, withheld: (value: unknown) => void = () => {}): unknown {
  return seen([schema], value, withheld);
}

/** True for a schema that is marked, or contains a mark. */
export function holdsMarks(schema: Schema): boolean {
  const known = marks.get(schema);
  if (known !== undefined) return known;
  // The entry is set before the recursion, so that the recursion ends for a schema that contains itself.
  marks.set(schema, false);
  const found = isSensitive(schema) || parts(schema).some(holdsMarks);
  marks.set(schema, found);
  return found;
}

const marks = new WeakMap<Schema, boolean>();

function seen(schemas: readonly Schema[], value: unknown, withheld: (value: unknown) => void): unknown {
  if (value === null || value === undefined || !schemas.some(holdsMarks)) return value;
  const withhold = () => {
    withheld(value);
    for (const name of namesIn(schemas, value)) withheld(name);
    return REDACTED;
  };
  const fitting = opened(schemas, value);
  if (fitting === "marked") return withhold();
  if (!fitting.some(holdsMarks)) return value;
  if (typeof value !== "object" || !fitting.some((one) => isOf(one, value))) return withhold();
  const at = (key: string | number, one: unknown) => {
    const known = fitting.flatMap((schema) => schemasAt(schema, key));
    if (known.length > 0) return seen(known, one, withheld);
    withheld(one);
    return REDACTED;
  };
  if (Array.isArray(value)) return value.map((one, index) => at(index, one));
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, at(key, one)]));
}

/** The keys of a redacted record, which are data. The keys of an object are in the schema, and no secret. */
function* namesIn(schemas: readonly Schema[], value: unknown): Generator<string> {
  if (typeof value !== "object" || value === null) return;
  const open = schemas.flatMap(unwrapped);
  const isNamed = open.some((one) => one._zod.def.type === "record") && !Array.isArray(value);
  for (const [key, one] of Object.entries(value)) {
    if (isNamed) yield key;
    yield* namesIn(
      open.flatMap((schema) => schemasAt(schema, key)),
      one,
    );
  }
}

/** The schemas inside the wrappers of a schema, marked as sensitive or not. A union gives each of its alternatives. */
function unwrapped(schema: Schema): z.core.$ZodTypes[] {
  const known = schema as z.core.$ZodTypes;
  return LEAVES.has(known._zod.def.type) ? [known] : parts(schema).flatMap(unwrapped);
}

/**
 * The schemas inside wrappers that apply to this value; `marked` if a schema is marked as sensitive, or if no alternative of a union
 * fits.
 */
function opened(schemas: readonly Schema[], value: unknown): Schema[] | "marked" {
  const found: Schema[] = [];
  for (const schema of schemas) {
    if (isSensitive(schema)) return "marked";
    const { def } = (schema as z.core.$ZodTypes)._zod;
    let inner: readonly Schema[] = parts(schema);
    if (def.type === "union") {
      inner = def.options.filter((one) => z.safeParse(one, value).success);
      if (inner.length === 0 && holdsMarks(schema)) return "marked";
    } else if (def.type === "record" && holdsMarks(def.keyType)) {
      return "marked";
    } else if (LEAVES.has(def.type)) {
      found.push(schema);
      continue;
    }
    const open = opened(inner, value);
    if (open === "marked") return open;
    found.push(...(inner.length === 0 ? [schema] : open));
  }
  return found;
}

/** Types of schemas with parts at keys or positions. Schemas of all remaining types wrap schemas of the same value, or have no parts. */
const LEAVES: ReadonlySet<string> = new Set(["object", "array", "tuple", "record"]);

/** The direct parts of a schema. */
function parts(schema: Schema): Schema[] {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "object":
      return [...Object.values(def.shape), ...(def.catchall ? [def.catchall] : [])];
    case "array":
      return [def.element];
    case "tuple":
      return [...def.items, ...(def.rest ? [def.rest] : [])];
    case "record":
      return [def.keyType, def.valueType];
    case "union":
      return [...def.options];
    case "intersection":
      return [def.left, def.right];
    case "pipe":
      return [def.in, def.out];
    case "lazy":
      return [def.getter()];
    case "optional":
    case "nullable":
    case "nonoptional":
    case "default":
    case "prefault":
    case "catch":
    case "readonly":
      return [def.innerType];
    default:
      return [];
  }
}

function isOf(schema: Schema, value: object): boolean {
  const { type } = (schema as z.core.$ZodTypes)._zod.def;
  return Array.isArray(value) ? type === "array" || type === "tuple" : type === "object" || type === "record";
}

/**
 * Merges an edited value with the stored value. Where the edited and the shown value are both redacted, the stored value remains. A marker
 * `[redacted]` in any other position remains, so that the validation refuses it.
 */
export function restored(edited: unknown, shown: unknown, stored: unknown): unknown {
  if (edited === REDACTED && shown === REDACTED) return stored;
  if (!isObject(edited) || !isObject(shown) || !isObject(stored)) return edited;
  if (Array.isArray(edited)) return edited.map((one, index) => restored(one, shown[index], stored[index]));
  return Object.fromEntries(Object.entries(edited).map(([key, one]) => [key, restored(one, own(shown, key), own(stored, key))]));
}

/** True if a value contains the marker `[redacted]`. */
export function saysRedacted(value: unknown): boolean {
  return value === REDACTED || (isObject(value) && Object.values(value).some(saysRedacted));
}

type Fields = Readonly<Record<PropertyKey, unknown>>;
const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null;
const own = (value: Fields, key: string): unknown => (Object.hasOwn(value, key) ? value[key] : undefined);

/**
 * Marks a field of a message as sensitive: the API and console show `[redacted]` in messages, instances, effects, approvals and dead
 * letters. Workflow code gets the real value. The function does the same as `.meta({ sensitive: true })`.
 */
export function sensitive<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ ...schema.meta(), sensitive: true });
}

/** True for a schema that is marked as sensitive itself. Marks of its parts do not count. */
function isSensitive(schema: z.core.$ZodType): boolean {
  return z.globalRegistry.get(schema as z.ZodType)?.sensitive === true;
}

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
