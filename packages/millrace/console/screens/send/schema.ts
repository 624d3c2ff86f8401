export interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema | boolean;
  prefixItems?: Schema[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  default?: unknown;
  examples?: unknown[];
  description?: string;
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  minItems?: number;
  /** True for a field whose value the engine redacts when the message is shown later. */
  sensitive?: boolean;
}

export type Control = "group" | "choice" | "number" | "text" | "list" | "json";

export function isNullable({ type, anyOf, enum: choices }: Schema): boolean {
  return (Array.isArray(type) && type.includes("null")) || choices?.includes(null) || (anyOf ?? []).some((one) => one.type === "null");
}

export function opened(schema: Schema): Schema {
  const { anyOf, ...own } = schema;
  const { type } = schema;
  const rest = anyOf?.filter((one) => one.type !== "null") ?? [];
  if (rest.length === 1 && rest[0]) return { ...own, ...rest[0] };
  if (!Array.isArray(type)) return schema;
  const types = type.filter((one) => one !== "null");
  return types.length === 1 && types[0] ? { ...schema, type: types[0] } : schema;
}

/** The schema of the items in a list. Undefined if the items have different schemas. */
export function itemsOf(schema: Schema): Schema | undefined {
  const { items, prefixItems } = opened(schema);
  return typeof items === "object" && prefixItems === undefined ? items : undefined;
}

export function controlOf(schema: Schema): Control {
  const { type, properties, enum: choices } = opened(schema);
  if (choices || type === "boolean") return "choice";
  if (type === "object" && properties) return "group";
  if (type === "integer" || type === "number") return "number";
  if (type === "string") return "text";
  const items = type === "array" ? itemsOf(schema) : undefined;
  return items && controlOf(items) !== "json" ? "list" : "json";
}

const CONTROLS: Readonly<Record<Control, (value: unknown, schema: Schema) => boolean>> = {
  group: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  choice: (value, { enum: choices = [true, false] }) => choices.some((one) => JSON.stringify(one) === JSON.stringify(value)),
  number: (value) => typeof value === "number" || /^-?\d[\d.eE+-]*$/.test((value as { text?: string } | null)?.text ?? ""),
  // A text field changes carriage returns, so a string that contains a carriage return is edited as JSON.
  text: (value) => typeof value === "string" && !value.includes("\r"),
  list: (value) => Array.isArray(value),
  json: () => true,
};

/** The control that shows a value of the form unchanged. If no other control can do this, the JSON control. */
export function controlFor(schema: Schema, value: unknown): Control {
  const control = controlOf(schema);
  const isShown = value === undefined || (value === null && isNullable(schema)) || CONTROLS[control](value, opened(schema));
  return isShown ? control : "json";
}

const DAY = 10;
const OF_FORMATS: Readonly<Record<string, () => string>> = {
  date: () => new Date().toISOString().slice(0, DAY),
  time: () => new Date().toISOString().slice(DAY + 1),
  "date-time": () => new Date().toISOString(),
  duration: () => "PT1H",
  uuid: () => crypto.randomUUID(),
  // In a browser, the example is the origin of the page.
  uri: () => `${(globalThis as { location?: { origin: string } }).location?.origin ?? "file:"}/`,
  email: () => "ada@example.com",
  ipv4: () => "192.0.2.1",
  ipv6: () => "2001:db8::1",
};

/**
 * A minimal value for a schema, without optional fields. If the schema has an example or a default, the value is taken from there;
 * otherwise it is generated.
 */
export function exampleOf(given: Schema): unknown {
  const schema = opened(given);
  const own = [given.examples?.[0], given.default, schema.examples?.[0], schema.default, schema.const].find((one) => one !== undefined);
  if (own !== undefined) return own;
  if (isNullable(given)) return null;
  if (schema.enum) return schema.enum[0];
  const [first] = schema.oneOf ?? schema.anyOf ?? [];
  if (first) return exampleOf(first);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "object") {
    const { properties = {}, required = [] } = schema;
    return Object.fromEntries(required.flatMap((name) => (properties[name] ? [[name, exampleOf(properties[name])]] : [])));
  }
  if (type === "array") return listFor(schema);
  if (type === "integer" || type === "number") return numberFor(schema);
  if (type === "boolean") return false;
  if (type === "string") return textFor(schema);
  return type === "null" ? null : {};
}

function listFor({ prefixItems = [], items, minItems = 0 }: Schema): unknown[] {
  const every = typeof items === "object" ? items : {};
  const count = Math.max(prefixItems.length, minItems, every.examples ? 1 : 0);
  return Array.from({ length: count }, (_, at) => exampleOf(prefixItems[at] ?? every));
}

function numberFor(schema: Schema): number {
  const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY, multipleOf } = schema;
  const { exclusiveMinimum: above = Number.NEGATIVE_INFINITY, exclusiveMaximum: below = Number.POSITIVE_INFINITY } = schema;
  const step = multipleOf ?? (schema.type === "integer" ? 1 : 0);
  const fits = (one: number) =>
    one >= minimum && one <= maximum && one > above && one < below && (step === 0 || Number.isInteger(one / step));
  const bounds = [minimum, maximum, above + (step || 1), below - (step || 1), (Math.max(minimum, above) + Math.min(maximum, below)) / 2];
  const stepped = step === 0 ? bounds : bounds.flatMap((one) => [Math.ceil(one / step) * step, Math.floor(one / step) * step]);
  return [1, 0, step, ...stepped].filter(Number.isFinite).find(fits) ?? 1;
}

/**
 * A string that has the format, the length and the pattern of a schema. The result is "" if none of the tried strings matches the pattern.
 */
function textFor({ format = "", pattern, minLength = 0, maxLength = Number.POSITIVE_INFINITY }: Schema): string {
  const made = OF_FORMATS[format]?.();
  if (made !== undefined) return made;
  const asked = pattern === undefined ? undefined : expressionOf(pattern);
  const long = Math.max(1, minLength);
  const usual = [
    "",
    ...["example", "a", "A", "1"].map((one) => (one.length >= minLength ? one : one.repeat(long).slice(0, long))),
    "a-1",
    "a1",
    "A1",
  ];
  return usual.find((one) => one.length >= minLength && one.length <= maxLength && (asked?.test(one) ?? true)) ?? "";
}

function expressionOf(pattern: string): RegExp | undefined {
  try {
    return new RegExp(pattern, "u");
  } catch {
    return undefined;
  }
}

export function hasExample(given: Schema): boolean {
  const { examples, properties = {}, items } = { ...given, ...opened(given) };
  return (examples?.length ?? 0) > 0 || Object.values(properties).some(hasExample) || (typeof items === "object" && hasExample(items));
}

/** The type and the description of a field in words. */
export function wordsOf(given: Schema, isRequired = true): string {
  const { format, default: usual, sensitive, description, enum: choices } = { ...given, ...opened(given) };
  const { type } = isNullable(given) ? opened(given) : given;
  const kind = choices ? "one of these" : (format ?? (Array.isArray(type) ? type.join(" or ") : type));
  const said = [
    !isRequired && "optional",
    kind && isNullable(given) ? `${kind} or null` : kind,
    usual !== undefined && `default ${JSON.stringify(usual)}`,
    sensitive && "withheld when shown later",
    description,
  ];
  return said.filter(Boolean).join(" · ");
}
