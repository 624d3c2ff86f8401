import * as z from "zod";
import type { Described, Route } from "./router.ts";

type Json = Record<string, unknown>;
interface Held {
  properties?: Record<string, Json>;
  required?: string[];
}

export interface Operation extends Json {
  tags?: readonly string[];
  responses: Record<string, object>;
}

export interface Document {
  readonly components: Record<string, Record<string, Json>>;
  readonly paths: Record<string, Record<string, Operation>>;
  readonly webhooks: Record<string, Record<string, Operation>>;
}

/** Builds the parts of the OpenAPI document about routes. A schema with an `id` in its metadata becomes a component with that name. */
export function documentOf({ routes, webhooks, components }: Described): Document {
  const schemas: Record<string, Json> = {};
  const known = new Map<z.ZodType, Json>();
  const schemaOf = (schema: object): Json => {
    if (!isZod(schema)) return schema as Json;
    const before = known.get(schema);
    if (before) return before;
    const converted = converting(schema);
    Object.assign(schemas, converted.named);
    known.set(schema, converted.schema);
    return converted.schema;
  };
  const byPath = (described: readonly Route[]) => {
    const paths: Document["paths"] = {};
    for (const route of described) {
      paths[route.path] = { [route.method]: operationOf(route, schemaOf), ...paths[route.path] };
    }
    return paths;
  };
  const said = { paths: byPath(routes), webhooks: byPath(webhooks) };
  const named = { ...components.schemas, ...schemas } as Record<string, Json>;
  for (const one of [said.paths, said.webhooks]) addExamples(one, named);
  return { components: { ...components, schemas: named } as Document["components"], ...said };
}

type SchemaOf = (schema: object) => Json;

function operationOf(
  { method: _, path: _path, middleware: _middleware, command, request = {}, responses, ...said }: Route,
  schemaOf: SchemaOf,
): Operation {
  const { params, query, headers, body } = request;
  const parameters = [...parametersIn("path", params), ...parametersIn("query", query), ...parametersIn("header", headers)];
  return {
    ...said,
    ...(command !== undefined && { "x-command": command }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: { ...body, content: contentOf(body.content, schemaOf) } }),
    responses: Object.fromEntries(
      Object.entries(responses).map(([status, { content, ...answer }]) => [
        status,
        { ...answer, ...(content && { content: contentOf(content, schemaOf) }) },
      ]),
    ),
  };
}

function contentOf(content: NonNullable<Route["responses"][string]["content"]>, schemaOf: SchemaOf): object {
  return Object.fromEntries(Object.entries(content).map(([type, { schema, ...said }]) => [type, { ...said, schema: schemaOf(schema) }]));
}

function parametersIn(place: "path" | "query" | "header", of: z.ZodObject | undefined): Json[] {
  if (of === undefined) return [];
  const { properties = {}, required = [] } = converting(of).schema as Held;
  return Object.entries(properties).map(([name, schema]) => {
    const { description } = schema;
    return { name, in: place, required: required.includes(name), ...(description !== undefined && { description }), schema };
  });
}

/** Converts a zod schema to JSON Schema, and separates the contained schemas that have an `id`. */
function converting(schema: z.ZodType): { schema: Json; named: Record<string, Json> } {
  const text = JSON.stringify(z.toJSONSchema(schema, { io: "input", unrepresentable: "any", override: asPeopleReadIt }));
  const {
    $schema: _,
    $defs = {},
    ...converted
  } = JSON.parse(text.replaceAll('"#/$defs/', '"#/components/schemas/')) as Json & { $defs?: object };
  const named = Object.entries($defs as Record<string, Json>).map(([id, { id: _id, ...one }]) => [id, one] as const);
  return { schema: converted, named: Object.fromEntries(named) };
}

/** Removes bounds of safe integers and patterns of formats from a JSON Schema. Metadata with a `type` replace the whole schema. */
function asPeopleReadIt({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodTypes; jsonSchema: Json }): void {
  const meta = z.globalRegistry.get(zodSchema) as Json | undefined;
  if (meta?.type !== undefined) {
    for (const key of Object.keys(jsonSchema)) delete jsonSchema[key];
    Object.assign(jsonSchema, meta);
  }
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  const { def } = zodSchema._zod;
  // JSON has no undefined, so a field may be absent if its schema accepts any value.
  if (def.type === "object" && Array.isArray(jsonSchema.required)) {
    jsonSchema.required = jsonSchema.required.filter((name: string) => def.shape[name]?._zod.def.type !== "unknown");
  }
}

function isZod(schema: object): schema is z.ZodType {
  return "_zod" in schema;
}

interface Schema {
  $ref?: string;
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  examples?: unknown[];
  default?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  propertyNames?: Schema;
  items?: Schema;
  prefixItems?: Schema[];
  minItems?: number;
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  format?: string;
}

type Content = Record<string, { schema: object; example?: unknown }>;

type Paths = Readonly<Record<string, Readonly<Record<string, { requestBody?: unknown; responses: Record<string, object> }>>>>;

/** Adds an example to each JSON body and each JSON response of status 2xx if the schema has no example. */
function addExamples(paths: Paths, schemas: Readonly<Record<string, Json>>): void {
  for (const { requestBody, responses } of Object.values(paths).flatMap((item) => Object.values(item))) {
    for (const one of [requestBody, ...good(responses)] as ({ content?: Content } | undefined)[]) ofContent(one?.content ?? {}, schemas);
  }
}

const good = (responses: Record<string, object>) => Object.entries(responses).flatMap(([status, one]) => (status < "3" ? [one] : []));

function ofContent(content: Content, schemas: Readonly<Record<string, Json>>): void {
  for (const [type, media] of Object.entries(content)) {
    if (type.endsWith("json") && media.example === undefined) media.example = exampleOf(media.schema, schemas);
  }
}

/** Makes an example for a schema: from the schema's own examples, constants and choices, otherwise from the names of its fields. */
function exampleOf(schema: Schema, schemas: Readonly<Record<string, Json>>, name = "", depth = 0): unknown {
  const again = (one: Schema, as = name) => exampleOf(one, schemas, as, depth + 1);
  if (schema.$ref !== undefined) return depth > DEEPEST ? {} : again((schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {}) as Schema);
  const own = [schema.examples?.[0], schema.const, schema.enum?.find((one) => one !== null)].find((one) => one !== undefined);
  if (own !== undefined) return own;
  const choices = schema.anyOf ?? schema.oneOf;
  if (NULLS.has(name) && (choices?.some(({ type }) => type === "null") || [schema.type].flat().includes("null"))) return null;
  if (choices) return again(choices.find(({ type }) => type !== "null") ?? {});
  if (schema.allOf) return again(Object.assign({}, ...schema.allOf));
  const type = [schema.type].flat().find((one) => one !== "null");
  if (type === "object") return ofObject(schema, again);
  if (type === "array") return (schema.prefixItems ?? [schema.items ?? {}]).map((one) => again(one));
  if (type === "string") return ofString(schema, name);
  if (type === "integer" || type === "number") return ofNumber(schema, name);
  if (type === "boolean") return !name.startsWith("dry_") && !NOT_SO.has(name);
  return name === "body" ? MESSAGE : (SAMPLES[name] ?? {});
}

/**
 * An example of an object: required fields, fields with an example, and known fields of any value, which the document never requires. The
 * example of a map has one entry.
 */
function ofObject(
  { properties = {}, required = [], additionalProperties, propertyNames }: Schema,
  again: (one: Schema, as?: string) => unknown,
) {
  const fields = Object.entries(properties).filter(
    ([name, one]) => required.includes(name) || one.examples !== undefined || (isAny(one) && name in SAMPLES),
  );
  const made = fields.map(([name, one]) => [name, again(one, name)]);
  const more = typeof additionalProperties === "object" && Object.keys(properties).length === 0 ? additionalProperties : undefined;
  if (more && Object.keys(more).length > 0) made.push([propertyNames?.enum?.[0] ?? "name", again(more)]);
  return Object.fromEntries(made) as Json;
}

function isAny({ type, $ref, anyOf, oneOf, allOf }: Schema): boolean {
  return [type, $ref, anyOf, oneOf, allOf].every((one) => one === undefined);
}

function ofString({ format = "", minLength = 0, maxLength = Number.POSITIVE_INFINITY }: Schema, name: string): string {
  const sample = FORMATS[format] ?? SAMPLES[name];
  const ending = Object.entries(ENDINGS).find(([end]) => name.endsWith(end))?.[1];
  return String(typeof sample === "string" ? sample : (ending ?? "text"))
    .padEnd(minLength, "0")
    .slice(0, maxLength);
}

function ofNumber({ minimum = 0, exclusiveMinimum = -1, maximum = Number.POSITIVE_INFINITY }: Schema, name: string): number {
  const sample = SAMPLES[name];
  return Math.min(maximum, Math.max(minimum, exclusiveMinimum + 1, typeof sample === "number" ? sample : 1));
}

const DEEPEST = 8;

const FORMATS: Readonly<Record<string, string>> = {
  "date-time": "2026-01-15T09:30:00.000Z",
  date: "2026-01-15",
  uri: "https://hooks.example.com/millrace",
  "uri-reference": "/problems#in_doubt",
  email: "ada@example.com",
  uuid: "6f1c2d3e-4b5a-4c6d-8e7f-9a0b1c2d3e4f",
};

/** Fields that are null in an example, where null is allowed. */
const NULLS = new Set([
  "refused",
  "error",
  "step_error",
  "undo",
  "retrying",
  "sleeping",
  "payload_ref",
  "output_ref",
  "repair",
  "escalation",
  "muted",
]);

const MESSAGE = { type: "order.ship", payload: { order: "1042" } };

/** Boolean fields that are false in an example. */
const NOT_SO = new Set(["more", "truncated", "replayed", "overdue", "captured_truncated", "skipped", "kept", "retryable", "broken"]);

const ENDINGS: Readonly<Record<string, string>> = {
  _id: "6f1c2d3e4b5a4c6d8e7f9a0b1c2d3e4f",
  _by: "ada",
  _url: "https://hooks.example.com/millrace",
  _at: "2026-01-15T09:30:00.000Z",
  _cursor: "MjAyNi0wMS0xNVQwOTozMDowMC4wMDBa",
};

/** Example values by the name of a field, used where the type is the same. */
const SAMPLES: Readonly<Record<string, unknown>> = {
  ...{ id: "6f1c2d3e4b5a4c6d8e7f9a0b1c2d3e4f", key: "order-1042", idempotency_key: "order-1042", action_id: "01JHM8Q4W6" },
  ...{ tenant: "acme", tenant_id: "acme", actor: "ada", by: "ada", holder: "ada", brand: "acme", source: "shop", who: "ada" },
  ...{ workflow: "ship-order", performer: "ship-order", name: "weekly", step: "charge card", item: "", subject: "order 1042" },
  ...{ queue: "orders", lane: "orders", type: "order.ship", message_type: "order.ship", event_type: "order.paid", kind: "instance" },
  ...{ payload: { order: "1042" }, payload_inline: { order: "1042" }, data: { order: "1042" }, body: "aGVsbG8=", properties: {} },
  ...{ result: { shipped: true }, output: { charged: true }, input: { order: "1042" }, details: { order: "1042" }, value: 1 },
  ...{ reason: "The courier is available again.", why: "The upstream answered 503.", message: "The upstream answered 503." },
  ...{
    title: "ship-order · order 1042",
    detail: "Correct the fields in issues.",
    note: "Check the courier.",
    question: "Ship order 1042?",
  },
  ...{ cron: "0 9 * * 1", time_zone: "Europe/Berlin", openapi: "3.1.0", token: "mr_0123456789abcdef_…", code: "upstream_refused" },
  ...{ path: "/v1/stream", verb: "retry", target: "6f1c2d3e4b5a4c6d8e7f9a0b1c2d3e4f", scopes: "read", scope: "operate", class: "keyed" },
  ...{ email: "ada@example.com", keyword: "cold brew", entity: "acme/spring", account: "acme/spring", model: "small", day: "2026-01-15" },
  ...{ from: "charge card", follows: "The instance continues.", url: "https://hooks.example.com/millrace", rule: "instances_errored" },
  ...{ hold: "order-1042", request: "2026-01-15", dataset: "contacts", match: "exact", upstream: "courier", operation: "import" },
  ...{ fact_types: "outcome", contact_ids: "ada", instance_ids: "6f1c2d3e4b5a4c6d8e7f9a0b1c2d3e4f", what: "charge card" },
  ...{ status: "complete", state: "open", trace_id: "4bf92f3577b34da6a3ce929d0e0e4736", secret: "whsec_…" },
  ...{ traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", specversion: "1.0", prices_of: "2026-01-15" },
};
