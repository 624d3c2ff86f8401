import { exports } from "cloudflare:workers";
import { dereference, type Schema, validate } from "@cfworker/json-schema";
import type { Answer, Json } from "./client.ts";

export interface Sent {
  method: string;
  /** With its query. */
  path: string;
  headers: Headers;
  /** Null if the status of the key's instance is unknown. */
  body: string | null | undefined;
}

interface Operation {
  name: string;
  pattern: RegExp;
  method: string;
  parameters: Json[];
  described: Json;
}

/** The document that the Worker serves, read once. */
let loaded: Promise<Document | undefined> | undefined;

interface Document {
  operations: Operation[];
  check: Check;
}

/**
 * Differences between an exchange and the OpenAPI document, one sentence each. Every response must match a documented response of its
 * operation, without fields outside its schema. An accepted request must match the document.
 */
export async function undocumented(sent: Sent, answer: Answer): Promise<string[]> {
  const { pathname, searchParams } = new URL(sent.path, "http://localhost");
  // The document contains no pages of the console.
  if (pathname === "/openapi.json" || (sent.method === "GET" && /^\/console(\/|$)/.test(pathname) && answer.status < 400)) return [];
  loaded ??= load();
  const document = await loaded;
  if (!document) return [];
  const { operations, check } = document;
  const method = sent.method === "HEAD" ? "GET" : sent.method;
  const operation = operations.find((one) => one.method === method && one.pattern.test(pathname));
  if (!operation) {
    if (answer.status < 400) return [`${method} ${pathname} is not in the document`];
    return sent.method === "HEAD" ? [] : check(PROBLEM, answer.body, "closely");
  }

  const faults = ofAnswer(operation, sent.method, answer, check);
  if (answer.status < 400) faults.push(...ofRequest(operation, { ...sent, pathname, searchParams }, answer.body, check));
  return faults.map((fault) => `${operation.name} (${answer.status}): ${fault}`);
}

/** Errors of a value against a schema. A response is checked strictly: undocumented fields are errors. */
type Check = (schema: Json, value: unknown, closely?: "closely") => string[];

const PROBLEM = { $ref: "#/components/schemas/Problem" };

function ofAnswer({ described }: Operation, method: string, { status, headers, body }: Answer, check: Check): string[] {
  const response = described.responses[status];
  if (!response) return [`the status ${status} is not in the document`];
  if (method === "HEAD" || body === "") return [];
  const type = mediaType(headers);
  const content = response.content?.[type];
  if (!content) return [`the content type ${type} is not in the document`];
  return check(content.schema, body, "closely").map((fault) => `the answer, ${fault}`);
}

function ofRequest(
  { described, parameters, pattern }: Operation,
  { pathname, searchParams, headers, body }: Sent & { pathname: string; searchParams: URLSearchParams },
  answered: Json,
  check: Check,
): string[] {
  const path = pattern.exec(pathname)?.groups ?? {};
  const faults = parameters.flatMap(({ in: place, name, required, schema }) => {
    const value = place === "path" ? decodeURIComponent(path[name] ?? "") : place === "query" ? searchParams.get(name) : headers.get(name);
    if (value === null) return required ? [`the ${place} lacks ${name}`] : [];
    return check(schema, typed(schema, value)).map((fault) => `${name}, ${fault}`);
  });
  const known = parameters.filter((one) => one.in === "query").map(({ name }) => name);
  faults.push(
    ...[...searchParams.keys()].filter((name) => !known.includes(name)).map((name) => `the query has the unknown parameter ${name}`),
  );

  if (body === null) return faults;
  if (body === undefined) return described.requestBody?.required ? [...faults, "the body is missing"] : faults;
  const type = mediaType(headers);
  // OpenAPI cannot express every JSON media type.
  const content = described.requestBody?.content[type] ?? (/[/+]json$/.test(type) && described.requestBody?.content["application/json"]);
  if (!content) return [...faults, `a body of ${type} is not in the document`];
  const value = /[/+]json$/.test(type) ? accepted(JSON.parse(body), answered) : body;
  if (value === undefined) return faults;
  return [...faults, ...check(content.schema, value).map((fault) => `the body, ${fault}`)];
}

/** The accepted items of a body with one response per item; undefined if no item was accepted. */
function accepted(body: Json, answered: Json): Json {
  const results: Json = answered?.results;
  if (Array.isArray(body) && Array.isArray(results)) return body.filter((_, index) => results[index]?.status < 400);
  const [key, items] = Object.entries<Json>(body ?? {}).find(([, value]) => Array.isArray(value)) ?? [];
  if (!Array.isArray(results) || key === undefined) return body;
  const taken = items.filter((_: Json, index: number) => results[index]?.status < 400);
  return taken.length > 0 ? { ...body, [key]: taken } : undefined;
}

/** A parameter is sent as text; the schema has its type. */
function typed(schema: Json, value: string): unknown {
  return [schema.type].flat().some((type) => type === "integer" || type === "number") && /^-?\d+(\.\d+)?$/.test(value)
    ? Number(value)
    : value;
}

function mediaType(headers: Headers): string {
  return (headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
}

async function load(): Promise<Document | undefined> {
  const served = await exports.default.fetch("http://localhost/openapi.json");
  // The Worker of a test may have no document.
  if (!served.ok) return undefined;
  const document: Json = await served.json();
  const operations = Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item).map(([method, described]) => ({
      name: `${method.toUpperCase()} ${path}`,
      pattern: patternOf(path),
      method: method.toUpperCase(),
      parameters: described.parameters ?? [],
      described,
    })),
  );
  // A literal segment precedes a parameter.
  operations.sort((a, b) => b.pattern.source.replaceAll(/\(\?<.*?\)/g, "").length - a.pattern.source.replaceAll(/\(\?<.*?\)/g, "").length);

  const { components } = document;
  const $defs = Object.fromEntries(
    Object.entries<Json>(components.schemas).flatMap(([name, schema]) => [
      [name, closed(schema)],
      [`${name} extended`, closed(schema, true)],
    ]),
  );
  // One register of all schemas: a register per operation would cost more than all lookups in it.
  const register = dereference({ $defs, components } as Schema);
  const known = new Map<Json, Schema>();
  const registered = (schema: Json, closely?: "closely"): Schema => {
    const own: Schema = closely ? closed(schema) : { ...schema };
    dereference(own, register, undefined, `/operations/${known.size}`);
    known.set(schema, own);
    return own;
  };
  const check: Check = (schema, value, closely) => {
    const { errors } = validate(value, known.get(schema) ?? registered(schema, closely), "2020-12", register, false);
    // The deepest errors are the most specific; the others are their parents.
    const deepest = errors.toSorted((a, b) => b.instanceLocation.split("/").length - a.instanceLocation.split("/").length);
    return deepest.slice(0, 2).map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
  };
  return { operations, check };
}

/** Only the path of a published page contains slashes. */
function patternOf(path: string): RegExp {
  const segment = path === "/pages/{path}" ? ".+" : "[^/]+";
  return new RegExp(`^${path.replaceAll(".", "\\.").replaceAll(/\{(\w+)\}/g, `(?<$1>${segment})`)}$`);
}

/** The schema, with objects closed to further properties: no undocumented fields. */
function closed(schema: Json, extended = false): Json {
  if (Array.isArray(schema)) return schema.map((one) => closed(one));
  if (typeof schema !== "object" || schema === null) return schema;
  const copy: Json = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => {
      if (key === "$ref") return [key, `${String(value).replace("#/components/schemas/", "#/$defs/")}${extended ? " extended" : ""}`];
      if (key === "allOf") return [key, (value as Json[]).map((one) => closed(one, true))];
      if (key === "properties") return [key, Object.fromEntries(Object.entries(value as Json).map(([name, one]) => [name, closed(one)]))];
      if (["items", "anyOf", "oneOf", "additionalProperties", "prefixItems"].includes(key)) return [key, closed(value)];
      return [key, value];
    }),
  );
  const names = schema.properties || schema.allOf;
  if (names && !extended && schema.additionalProperties === undefined) copy.unevaluatedProperties = false;
  return copy;
}
