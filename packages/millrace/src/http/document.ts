import * as z from "zod";
import { answersOfProblems, LIMIT_HEADER_COMPONENTS } from "./problem.ts";
import type { Problems } from "./problems.ts";
import type { Described, Route } from "./router.ts";

type Json = Record<string, unknown>;
type Overridden = { zodSchema: z.core.$ZodTypes; jsonSchema: Json };
interface Held {
  properties?: Record<string, Json>;
  required?: string[];
}

export interface Operation extends Json {
  tags?: readonly string[];
  responses: Record<string, object>;
}

export interface Document {
  readonly components: Readonly<Record<"schemas" | "securitySchemes" | "headers", Record<string, Json>>>;
  readonly paths: Record<string, Record<string, Operation>>;
  readonly webhooks: Record<string, Record<string, Operation>>;
}

/** Builds the parts of the OpenAPI document about routes. A schema with an `id` in its metadata becomes a component with that name. */
export function documentOf({ routes, webhooks }: Described, problems: Problems): Document {
  const schemas: Record<string, Json> = {};
  const known = new Map<z.ZodType, Json>();
  const schemaOf: SchemaOf = (schema, isAnswer) => {
    if (!isZod(schema)) return schema as Json;
    const before = known.get(schema);
    if (before) return before;
    const converted = converting(schema, isAnswer);
    Object.assign(schemas, converted.named);
    known.set(schema, converted.schema);
    return converted.schema;
  };
  const byPath = (described: readonly Route[]) => {
    const paths: Document["paths"] = {};
    for (const route of described) {
      paths[route.path] = { [route.method]: operationOf(route, schemaOf, problems), ...paths[route.path] };
    }
    return paths;
  };
  const said = { paths: byPath(routes), webhooks: byPath(webhooks) };
  const securitySchemes = Object.assign({}, ...routes.map(({ schemes }) => schemes));
  return { components: { schemas, securitySchemes, headers: LIMIT_HEADER_COMPONENTS }, ...said };
}

type SchemaOf = (schema: object, isAnswer: boolean) => Json;

function operationOf(
  { method: _, path, middleware: _middleware, schemes: _schemes, command, request = {}, responses, problems, ...said }: Route,
  schemaOf: SchemaOf,
  table: Problems,
): Operation {
  const { params, query, headers, body } = request;
  const refusals = problems ? answersOfProblems(path, problems, table) : [];
  const answers = new Map<string, Route["responses"][string]>(refusals.map(([status, answer]) => [String(status), answer]));
  for (const [status, one] of Object.entries(responses)) {
    answers.set(status, { ...one, ...(one.content && { content: { ...answers.get(status)?.content, ...one.content } }) });
  }
  const parameters = [...parametersIn("path", params), ...parametersIn("query", query), ...parametersIn("header", headers)];
  return {
    ...said,
    ...(command !== undefined && { "x-command": command }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: { ...body, content: contentOf(body.content, schemaOf, false) } }),
    responses: Object.fromEntries(
      [...answers].map(([status, { content, ...answer }]) => [
        status,
        { ...answer, ...(content && { content: contentOf(content, schemaOf, true) }) },
      ]),
    ),
  };
}

function contentOf(content: NonNullable<Route["responses"][string]["content"]>, schemaOf: SchemaOf, isAnswer: boolean): object {
  return Object.fromEntries(Object.entries(content).map(([type, { schema }]) => [type, { schema: schemaOf(schema, isAnswer) }]));
}

function parametersIn(place: "path" | "query" | "header", of: z.ZodObject | undefined): Json[] {
  if (of === undefined) return [];
  const { properties = {}, required = [] } = converting(of, false).schema as Held;
  return Object.entries(properties).map(([name, schema]) => {
    const { description } = schema;
    return { name, in: place, required: required.includes(name), ...(description !== undefined && { description }), schema };
  });
}

/** Separates the contained schemas that have an `id`. */
function converting(schema: z.ZodType, isAnswer: boolean): { schema: Json; named: Record<string, Json> } {
  const override = (context: Overridden) => asPeopleReadIt(context, isAnswer);
  const text = JSON.stringify(z.toJSONSchema(schema, { io: "input", unrepresentable: "any", override }));
  const {
    $schema: _,
    $defs = {},
    ...converted
  } = JSON.parse(text.replaceAll('"#/$defs/', '"#/components/schemas/')) as Json & { $defs?: object };
  const named = Object.entries($defs as Record<string, Json>).map(([id, { id: _id, ...one }]) => [id, one] as const);
  return { schema: converted, named: Object.fromEntries(named) };
}

/** Removes bounds of safe integers and patterns of formats from a JSON Schema. Metadata with a `type` replace the whole schema. */
function asPeopleReadIt({ zodSchema, jsonSchema }: Overridden, isAnswer: boolean): void {
  const meta = z.globalRegistry.get(zodSchema) as Json | undefined;
  if (meta?.type !== undefined) {
    for (const key of Object.keys(jsonSchema)) delete jsonSchema[key];
    Object.assign(jsonSchema, meta);
  }
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  const { def } = zodSchema._zod;
  // JSON has no undefined, so a field of an answer may be absent if its schema accepts any value.
  if (isAnswer && def.type === "object" && Array.isArray(jsonSchema.required)) {
    jsonSchema.required = jsonSchema.required.filter((name: string) => def.shape[name]?._zod.def.type !== "unknown");
  }
}

function isZod(schema: object): schema is z.ZodType {
  return "_zod" in schema;
}
