import * as z from "zod";
import { digest } from "../contract/ids.ts";
import { operation } from "./operation.ts";
import { answersOfProblems, LIMIT_HEADER_COMPONENTS } from "./problem.ts";
import { byStatus, type Problems } from "./problems.ts";
import { answers, type Described, type Route } from "./router.ts";

const INFO = {
  title: "Millrace",
  version: "1",
  license: { name: "MIT", identifier: "MIT" },
  description:
    "An orchestration engine for Cloudflare Workers. Every route under /v1 needs a token and reads and changes only the data of the token's tenant. Errors are problem details (RFC 9457).",
};

/** The server's URL is relative, because the server of the OpenAPI document also serves the routes. */
const SERVERS = [{ url: "/", description: "The deployment that serves this document" }];

interface Beside {
  groups: readonly Group[];
  problems: Problems;
  scopes: readonly string[];
}

/** Serves the OpenAPI document of the `described` routes. The first request builds its text, and `ETag` names the text. */
export function openApi(described: Described, { groups, problems, scopes }: Beside) {
  let text: string | undefined;
  let etag = "";
  return operation("get", "/openapi.json", "getDocument", "openapi show", {
    summary: "Get this OpenAPI document",
    description: "Returns the OpenAPI 3.1 document of this deployment, including the routes of the app.",
    security: [],
    answer: {
      200: answers("OpenAPI 3.1", z.looseObject({ openapi: z.string() })),
      304: { description: "`If-None-Match` has the `ETag` of this document" },
    },
    run({ context }) {
      if (text === undefined) {
        text = JSON.stringify(wholeOf(described, { groups: [...ENGINE_GROUPS, ...groups], problems, scopes }));
        etag = `"${digest(text)}"`;
      }
      context.header("etag", etag);
      // A proxy that compresses the text makes the tag weak: `W/"…"`.
      if (context.req.header("if-none-match")?.includes(etag)) return context.body(null, 304);
      return context.body(text, 200, { "content-type": "application/json" });
    },
  });
}

function wholeOf(described: Described, { groups, problems, scopes }: Beside): object {
  const document = documentOf(described, problems);
  const { schemas, securitySchemes } = document.components;
  const { properties } = schemas.Problem as { properties: { code: object } };
  Object.assign(properties.code, { enum: byStatus(problems).map(([name]) => name) });
  const named = [...new Set(["enqueue", "read", "operate", ...scopes, "pull", "observe", "tokens"])].map((scope) => `\`${scope}\``);
  securitySchemes.bearer = {
    type: "http",
    scheme: "bearer",
    bearerFormat: "mr_<id>_<secret>",
    description: `A token with the scope the route names: ${named.join(", ")}; \`unattributed\` adds data without a tenant.`,
  };
  for (const [path, item] of Object.entries(document.paths)) {
    for (const operation of Object.values(item)) operation.tags = [tagOf(path, groups)];
  }
  const tags = groups.map(({ name, description }) => ({ name, description }));
  return { openapi: "3.1.0", info: INFO, servers: SERVERS, tags, ...document };
}

/** A group of routes in the OpenAPI document. `paths` are path prefixes of its routes. */
export interface Group {
  name: string;
  description: string;
  paths: readonly string[];
}

const group = (name: string, paths: readonly string[], description: string): Group => ({ name, paths, description });

const ENGINE_GROUPS: readonly Group[] = [
  group("Commands", ["/v1/commands", "/v1/events", "/v1/callback-secret", "/inbound"], "Accept commands, events and webhooks."),
  group(
    "Instances",
    ["/v1/instances"],
    "Read instances with their status, steps, effects and messages; retry, undo, pause and cancel them.",
  ),
  group("Effects", ["/v1/effects"], "Resolve effects with an unknown outcome (`in_doubt`)."),
  group("Approvals", ["/v1/approvals"], "Read and answer the questions of instances."),
  group("Dead letters", ["/v1/dead-letters"], "Read, replay and skip messages that no consumer could process."),
  group("Bulk actions", ["/v1/bulk-actions"], "Apply one action to many items: count them first, run in stages, halt, resume."),
  group("Lanes", ["/v1/lanes"], "Lanes keep the order of messages per key. Find stalled lanes, pause and resume them."),
  group("Schedules", ["/v1/schedules"], "Send commands at times of a cron expression."),
  group("Limits", ["/v1/limits"], "Read the usage of rate limits, the waiting calls, and reductions after refusals of an upstream."),
  group("Locks", ["/v1/locks"], "Read the holders of locks and break a lock."),
  group("Divergences", ["/v1/divergences"], "Read differences between two records of the same fact."),
  group("Finding", ["/v1/search", "/v1/correlations", "/v1/keys"], "Find items by any id or key, a whole job, or the holder of a key."),
  group(
    "Catalog",
    ["/v1/catalog"],
    "Read which messages, queues and workflows the deployment has, and how they are connected; check a message before you send it.",
  ),
  group("Live", ["/v1/stream", "/v1/stream-tokens"], "Follow changes as server-sent events, also in a browser."),
  group(
    "Tokens",
    ["/v1/tokens", "/v1/caller", "/v1/sign-in-codes", "/console/sign-in"],
    "Mint, list and revoke API tokens; sign in to the console.",
  ),
  group("Audit", ["/v1/audit"], "Read the actions of operators and their reasons."),
  group(
    "Health",
    ["/metrics", "/v1/queues", "/v1/messages", "/v1/workflows"],
    "Read counters, gauges and queue health of the whole deployment.",
  ),
  group("Alerts", ["/v1/alerts"], "Read and mute alerts about the health of the deployment."),
  group("Costs", ["/v1/costs"], "Read the cost of workflows and the monthly cost of the deployment."),
  group("Model Context Protocol", ["/mcp"], "Use the operations as tools of a language model."),
  group("Deployment", ["/"], "The API document, the health check and the problem reference."),
];

/** The name of the group with the longest prefix that matches a path. */
function tagOf(path: string, groups: readonly Group[]): string {
  const fitting = groups
    .flatMap(({ name, paths }) => paths.map((start) => ({ name, start })))
    .filter(({ start }) => path === start || path.startsWith(start === "/" ? start : `${start}/`));
  return fitting.reduce((longest, one) => (one.start.length > longest.start.length ? one : longest)).name;
}

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

/** Removes bounds of safe integers and patterns of formats. Metadata with a `type` replace the whole schema. */
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
  // The library leaves out the default of a parameter that is converted, such as a number.
  if (def.type === "default") jsonSchema.default ??= def.defaultValue;
  // JSON has no undefined, so a field of an answer may be absent if its schema accepts any value.
  if (isAnswer && def.type === "object" && Array.isArray(jsonSchema.required)) {
    jsonSchema.required = jsonSchema.required.filter((name: string) => def.shape[name]?._zod.def.type !== "unknown");
  }
}

function isZod(schema: object): schema is z.ZodType {
  return "_zod" in schema;
}
