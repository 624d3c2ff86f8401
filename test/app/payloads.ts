import * as z from "zod";
import type { MessageDefinition } from "../../packages/millrace/src/contract/message.ts";
import type { Json } from "../api/client.ts";

/** The names of messages' fields, and the value of a text under that name. */
export type Names = Readonly<Record<string, string>>;

/**
 * Payloads that are valid by a message's own schema, one for each of its shapes, with each text named after its field. A message with a
 * field that has no name yet fails here, so that its author declares the tenant's data that the field names.
 */
export function payloadsOf(definition: MessageDefinition, names: Names): Json[] {
  const schema = z.toJSONSchema(definition.payload, { io: "input", unrepresentable: "any" });
  return shapes(schema, "payload", (field) => {
    const said = names[field];
    if (said !== undefined) return said;
    throw new Error(`${definition.type} has the text "${field}": add another tenant's value of that name in test/app/other-tenant.ts.`);
  }).map((payload) => checked(definition, payload));
}

/** The payload with one of its texts replaced by this text, for each of its texts that the schema accepts. */
export function withText(definition: MessageDefinition, payload: Json, text: string): Json[] {
  return textsIn(payload).flatMap((path) => {
    const changed = structuredClone(payload);
    const last = path.at(-1) ?? "";
    const holder = path.slice(0, -1).reduce((inner, key) => inner[key], changed);
    holder[last] = text;
    return definition.payload.safeParse(changed).success ? [changed] : [];
  });
}

function textsIn(value: Json, path: string[] = []): string[][] {
  if (typeof value === "string") return [path];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => textsIn(inner, [...path, key]));
}

function checked(definition: MessageDefinition, payload: Json): Json {
  const { error } = definition.payload.safeParse(payload);
  if (error) throw new Error(`${definition.type} does not accept ${JSON.stringify(payload)}: ${z.prettifyError(error)}`);
  return payload;
}

const TIMES: Record<string, string> = { "date-time": "2026-10-01T09:30:00.000Z", date: "2026-10-01" };

function shapes(schema: Json, field: string, say: (field: string) => string): Json[] {
  if ("const" in schema) return [schema.const];
  if (schema.enum) return [schema.enum[0]];
  const branches = schema.anyOf ?? schema.oneOf;
  if (branches) return branches.flatMap((branch: Json) => shapes(branch, field, say));
  if (Array.isArray(schema.type)) return schema.type.flatMap((type: string) => shapes({ ...schema, type }, field, say));
  switch (schema.type) {
    case "object":
      return shapesOfObject(schema.properties ?? {}, say);
    case "array":
      return shapes(schema.items ?? {}, field, say).map((item) => [item]);
    case "string":
      return [TIMES[schema.format] ?? say(field)];
    case "integer":
    case "number":
      return [Math.max(schema.minimum ?? 1, 1)];
    case "boolean":
      return [true];
    case "null":
      return [null];
    default:
      return [say(field)];
  }
}

/** Every field is present. The first shape of each field makes one object; each further shape makes another object. */
function shapesOfObject(properties: Json, say: (field: string) => string): Json[] {
  const fields = Object.entries<Json>(properties).map(([name, schema]) => [name, shapes(schema, name, say)] as const);
  const first = Object.fromEntries(fields.map(([name, [one]]) => [name, one]));
  return [first, ...fields.flatMap(([name, [, ...others]]) => others.map((other) => ({ ...first, [name]: other })))];
}
