/** JSON Schema as far as a form is made from it. */
export interface Schema {
  type?: string | string[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  default?: unknown;
  examples?: unknown[];
  description?: string;
  format?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  minItems?: number;
  /** True for a field that people are not shown later. */
  sensitive?: boolean;
}

/** What a field is filled in by. */
export type Control = "group" | "choice" | "yes or no" | "number" | "text" | "list" | "json";

/** A schema without the alternative that it may be null. */
export function opened(schema: Schema): Schema {
  const rest = schema.anyOf?.filter((one) => one.type !== "null") ?? [];
  return rest.length === 1 && rest[0] ? { ...schema, ...rest[0] } : schema;
}

export function controlOf(schema: Schema): Control {
  const { type, properties, enum: choices, items } = opened(schema);
  if (choices) return "choice";
  if (type === "object" && properties) return "group";
  if (type === "boolean") return "yes or no";
  if (type === "integer" || type === "number") return "number";
  if (type === "string") return "text";
  if (type === "array" && items && ["text", "number"].includes(controlOf(items))) return "list";
  return "json";
}

const DAY = 10;
const OF_FORMATS: Readonly<Record<string, () => string>> = {
  date: () => new Date().toISOString().slice(0, DAY),
  "date-time": () => new Date().toISOString(),
  uuid: () => crypto.randomUUID(),
  uri: () => `${location.origin}/`,
  email: () => "ada@example.com",
};

/** Something that fits a schema: its own example where it has one, and only what has to be there. */
export function exampleOf(given: Schema): unknown {
  const schema = opened(given);
  const { type, examples, const: only, enum: choices, default: usual, format, minimum, items, minItems = 0 } = schema;
  if (examples && examples.length > 0) return examples[0];
  if (usual !== undefined) return usual;
  if (only !== undefined) return only;
  if (choices) return choices[0];
  if (type === "object") {
    const { properties = {}, required = [] } = schema;
    return Object.fromEntries(required.flatMap((name) => (properties[name] ? [[name, exampleOf(properties[name])]] : [])));
  }
  if (type === "array") return items && (minItems > 0 || items.examples) ? [exampleOf(items)] : [];
  if (type === "integer" || type === "number") return Math.max(1, minimum ?? 1);
  if (type === "boolean") return false;
  if (type === "string") return OF_FORMATS[format ?? ""]?.() ?? "";
  return type === "null" ? null : {};
}

/** What a schema asks of a field, in a few words. */
export function wordsOf(given: Schema): string {
  const { type, format, default: usual, sensitive, description, enum: choices } = { ...given, ...opened(given) };
  const kind = choices ? "one of these" : (format ?? (Array.isArray(type) ? type.join(" or ") : type));
  const said = [kind, usual !== undefined && `default ${JSON.stringify(usual)}`, sensitive && "withheld from people later", description];
  return said.filter(Boolean).join(" · ");
}
