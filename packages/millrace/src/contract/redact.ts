import * as z from "zod";
import { schemasAt } from "./schema-at.ts";
import { isSensitive } from "./sensitive.ts";

type Schema = z.core.$ZodType;

/** What people read in place of what is withheld. */
export const REDACTED = "[redacted]";

/**
 * A value as people may see it, by its schema: what is marked as sensitive is withheld, wherever it lies in objects, lists, records and
 * alternatives. Beside a marked field everything that the schema does not know is withheld as well: it may be the same under a wrong name.
 * So is a whole value that is of another shape than a schema that holds a mark. `withheld` hears of each.
 */
export function redact(schema: Schema, value: unknown, withheld: (value: unknown) => void = () => {}): unknown {
  return seen([schema], value, withheld);
}

/** Whether a schema is marked, or holds something that is. */
export function holdsMarks(schema: Schema): boolean {
  const known = marks.get(schema);
  if (known !== undefined) return known;
  // A schema that holds itself adds nothing to what it holds beside.
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

/** The names within a withheld value that are data, as a record's are: those of an object stand in the schema, which is no secret. */
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

/** What a schema is made of behind all that is wrapped around it, marked or not, with each of its alternatives. */
function unwrapped(schema: Schema): z.core.$ZodTypes[] {
  const known = schema as z.core.$ZodTypes;
  return LEAVES.has(known._zod.def.type) ? [known] : parts(schema).flatMap(unwrapped);
}

/** Schemas without what is wrapped around them, for this value; `marked` where one is, or none of the alternatives of a union fits. */
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

/** Schemas of what has parts at names or places; everything else is wrapped around another, or has none. */
const LEAVES: ReadonlySet<string> = new Set(["object", "array", "tuple", "record"]);

/** What a schema is made of. */
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
 * What a person sends back of something that was withheld from them: wherever it still says so, and what they were shown does, what is
 * stored stays. A marker that stands anywhere else is left for whoever checks the value.
 */
export function restored(edited: unknown, shown: unknown, stored: unknown): unknown {
  if (edited === REDACTED && shown === REDACTED) return stored;
  if (!isObject(edited) || !isObject(shown) || !isObject(stored)) return edited;
  if (Array.isArray(edited)) return edited.map((one, index) => restored(one, shown[index], stored[index]));
  return Object.fromEntries(Object.entries(edited).map(([key, one]) => [key, restored(one, own(shown, key), own(stored, key))]));
}

/** Whether anything in a value is the marker itself. */
export function saysRedacted(value: unknown): boolean {
  return value === REDACTED || (isObject(value) && Object.values(value).some(saysRedacted));
}

type Fields = Readonly<Record<PropertyKey, unknown>>;
const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null;
const own = (value: Fields, key: string): unknown => (Object.hasOwn(value, key) ? value[key] : undefined);
