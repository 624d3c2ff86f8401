/** The fields of a JSON Schema (2020-12) that are read to generate an example. */
interface Schema {
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  default?: unknown;
  examples?: unknown[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minItems?: number;
  prefixItems?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  format?: string;
  minLength?: number;
  minimum?: number;
  exclusiveMinimum?: number;
  [other: string]: unknown;
}

const FORMATS: Readonly<Record<string, string>> = {
  "date-time": "2026-01-01T00:00:00Z",
  date: "2026-01-01",
  time: "00:00:00",
  email: "ada@example.com",
  uri: "https://example.com",
  uuid: "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
};

/**
 * Returns a value for a JSON Schema: an example from the schema, or generated values for its required fields. For complex schemas, the
 * value may be invalid.
 */
export function exampleOf(schema: object, name = "text"): unknown {
  const { examples, enum: values, anyOf, oneOf, allOf, type, ...rest } = schema as Schema;
  if (examples?.length) return examples[0];
  if ("const" in rest) return rest.const;
  if (rest.default !== undefined) return rest.default;
  if (values) return values[0];
  const [choice] = anyOf ?? oneOf ?? [];
  if (choice) return exampleOf(choice, name);
  if (allOf) return Object.assign({}, ...allOf.map((one) => exampleOf(one, name)));
  switch (Array.isArray(type) ? type[0] : type) {
    case "object":
      return Object.fromEntries((rest.required ?? []).map((field) => [field, exampleOf(rest.properties?.[field] ?? {}, field)]));
    case "array":
      return (
        rest.prefixItems?.map((one) => exampleOf(one)) ??
        Array.from({ length: rest.minItems ?? 0 }, () => exampleOf(rest.items ?? {}, name))
      );
    case "integer":
    case "number":
      return Math.max(1, rest.minimum ?? 1, (rest.exclusiveMinimum ?? 0) + 1);
    case "boolean":
      return true;
    case "null":
      return null;
    default:
      return FORMATS[rest.format ?? ""] ?? (name === "name" ? "Ada" : name).padEnd(rest.minLength ?? 0, "x");
  }
}
