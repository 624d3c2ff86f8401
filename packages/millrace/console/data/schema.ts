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
  /** Set for a field that must be absent. */
  not?: object;
  default?: unknown;
  examples?: unknown[];
  description?: string;
  format?: string;
  pattern?: string;
  maxLength?: number;
  /** True for a field whose value the engine redacts when the message is shown later. */
  sensitive?: boolean;
}

export type Control = "group" | "choice" | "choices" | "check" | "number" | "text" | "time" | "list" | "json";

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

/** The values that a schema permits, with their descriptions. Empty if the schema does not list values. */
export function choicesOf({ enum: values = [], oneOf = values.map((one) => ({ const: one })) }: Schema): Schema[] {
  return oneOf.every((one) => one.const !== undefined) ? oneOf : [];
}

export function controlOf(schema: Schema): Control {
  const { type, properties, enum: choices, format, default: usual } = opened(schema);
  if (type === "boolean" && usual !== undefined) return "check";
  if (choices || type === "boolean") return "choice";
  if (type === "object" && properties) return "group";
  if (type === "integer" || type === "number") return "number";
  if (type === "string") return format === "date-time" ? "time" : "text";
  const items = type === "array" ? itemsOf(schema) : undefined;
  if (items && choicesOf(items).length > 0) return "choices";
  return items && controlOf(items) !== "json" ? "list" : "json";
}

const CONTROLS: Readonly<Record<Control, (value: unknown, schema: Schema) => boolean>> = {
  group: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  choice: (value, { enum: choices = [true, false] }) => choices.some((one) => JSON.stringify(one) === JSON.stringify(value)),
  choices: (value, { items }) =>
    Array.isArray(value) &&
    value.every((one, at) => choicesOf(items as Schema).some((of) => of.const === one) && value.indexOf(one) === at),
  check: (value) => typeof value === "boolean",
  number: (value) => typeof value === "number" || /^-?\d[\d.eE+-]*$/.test((value as { text?: string } | null)?.text ?? ""),
  // A text field changes carriage returns, so a string that contains a carriage return is edited as JSON.
  text: (value) => typeof value === "string" && !value.includes("\r"),
  time: (value) => typeof value === "string" && new Date(value).toString() !== "Invalid Date",
  list: (value) => Array.isArray(value),
  json: () => true,
};

/** The control that shows a value of the form unchanged. If no other control can do this, the JSON control. */
export function controlFor(schema: Schema, value: unknown): Control {
  const control = controlOf(schema);
  const isShown = value === undefined || (value === null && isNullable(schema)) || CONTROLS[control](value, opened(schema));
  return isShown ? control : "json";
}

/** A minimal value for a schema: its example, its default, or its only value. Optional fields are omitted, other fields are empty. */
export function exampleOf(given: Schema): unknown {
  const schema = opened(given);
  const own = [given.examples?.[0], given.default, schema.examples?.[0], schema.default, schema.const].find((one) => one !== undefined);
  if (own !== undefined) return own;
  if (isNullable(given)) return null;
  if (schema.enum) return schema.enum[0];
  const { properties = {}, required = [], prefixItems = [], items } = schema;
  const [first] = schema.oneOf ?? schema.anyOf ?? [];
  if (first) return exampleOf(first);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "object") return Object.fromEntries(required.map((name) => [name, exampleOf(properties[name] ?? {})]));
  if (type === "array") return [...prefixItems, ...(typeof items === "object" && items.examples ? [items] : [])].map(exampleOf);
  return type === "string" ? "" : undefined;
}

/** The type and the description of a field in words. */
export function wordsOf(given: Schema, isRequired: boolean): string {
  const { format, enum: choices } = { ...given, ...opened(given) };
  const { type } = isNullable(given) ? opened(given) : given;
  const kind = choices ? "one of these" : (format ?? (Array.isArray(type) ? type.join(" or ") : type));
  return [!isRequired && "optional", kind && isNullable(given) ? `${kind} or null` : kind, helpOf(given)].filter(Boolean).join(" · ");
}

/** The default and the description of a field in words. */
export function helpOf(given: Schema): string {
  const { default: usual, sensitive, description } = { ...given, ...opened(given) };
  const said = [usual !== undefined && `default ${JSON.stringify(usual)}`, sensitive && "withheld when shown later", description];
  return said.filter(Boolean).join(" · ");
}
