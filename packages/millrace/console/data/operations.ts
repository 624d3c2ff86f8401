import { type Path, type Result, send } from "./api.ts";
import type { Schema } from "./schema.ts";

type Place = "path" | "query" | "body";

export interface Operation {
  summary: string;
  description: string;
  /** The reason why the action cannot be undone. */
  final: string | undefined;
  /** The parameters and the fields of the body, without the reason. */
  fields: Schema;
  placeOf: (field: string) => Place;
  hasDryRun: boolean;
  /** True if a repeated request with the same idempotency key has no second effect. */
  isKeyed: boolean;
  /** True if a repeated request creates a second object. */
  isCreating: boolean;
  /** A sentence about the result, without the full stop at the end. */
  done: string;
}

interface Described {
  summary: string;
  description: string;
  "x-final"?: string;
  parameters?: { name: string; in: Place | "header"; required?: boolean; schema: Schema; description?: string }[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, { description: string }>;
}

interface Document {
  paths: Record<string, Record<string, Described>>;
  components: { schemas: Record<string, Schema> };
}

let document: Promise<Result<Document>> | undefined;

/** Loads the OpenAPI document, once per page load, when the user points at an action or opens it. */
export async function loadOperations(): Promise<Result<Document>> {
  document ??= send("GET", "/openapi.json", {}) as Promise<Result<Document>>;
  const found = await document;
  if (!found.ok) document = undefined;
  return found;
}

export async function operationAt(method: string, path: Path): Promise<Result<Operation>> {
  const found = await loadOperations();
  if (!found.ok) return found;
  const { paths, components } = found.data;
  const described = paths[path.replaceAll(/:(\w+)/g, "{$1}")]?.[method.toLowerCase()];
  if (described) {
    const { responses, ...request } = described;
    return { ok: true, data: operationOf({ ...(resolved(request, components.schemas) as typeof request), responses }) };
  }
  const detail = "This deployment has no such action: the page and the engine have different versions. Reload the page.";
  return { ok: false, problem: { code: "unknown_action", title: "Unknown action", detail, status: 0, retryable: false } };
}

function operationOf({ summary, description, "x-final": final, parameters = [], requestBody, responses }: Described): Operation {
  const schema = requestBody?.content["application/json"]?.schema;
  // The first of several kinds of bodies is the one without the headers of a CloudEvent.
  const body = schema?.anyOf?.[0] ?? schema;
  const sent = parameters.filter((one) => one.in !== "header");
  const {
    reason: _,
    dry_run: dryRun,
    ...properties
  } = {
    ...Object.fromEntries(sent.map(({ name, description, schema }) => [name, { ...(description && { description }), ...schema }])),
    ...body?.properties,
  };
  const required = [...sent.filter((one) => one.required).map(({ name }) => name), ...(body?.required ?? [])];
  const [status = "", answer] = Object.entries(responses).findLast(([code]) => code < "3") ?? [];
  const isKeyed = parameters.some(({ name }) => name.toLowerCase() === "idempotency-key");
  return {
    ...{ summary, description: description.split("\n\n")[0] ?? "", final, isKeyed },
    fields: { type: "object", properties, required: required.filter((name) => name in properties) },
    placeOf: (field) => (sent.find(({ name }) => name === field)?.in ?? "body") as Place,
    hasDryRun: dryRun !== undefined,
    isCreating: status === "201" && !isKeyed,
    done: answer?.description ?? "Done",
  };
}

const DEEPEST = 12;

function resolved(value: unknown, schemas: Document["components"]["schemas"], depth = DEEPEST): unknown {
  if (typeof value !== "object" || value === null || depth === 0) return value;
  const { $ref } = value as { $ref?: string };
  if ($ref) return resolved(schemas[$ref.split("/").at(-1) ?? ""], schemas, depth - 1);
  if (Array.isArray(value)) return value.map((one) => resolved(one, schemas, depth - 1));
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, resolved(one, schemas, depth - 1)]));
}
