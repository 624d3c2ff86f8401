import { sample } from "openapi-sampler";
import type { Page } from "./pages.ts";

/** A JSON Schema in the OpenAPI document. */
interface Schema {
  $ref?: string;
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  format?: string;
  pattern?: string;
  [bound: string]: unknown;
}

interface Answer {
  description: string;
  headers?: Record<string, { description?: string }>;
  content?: Content;
}

type Content = Record<string, { schema?: Schema; example?: unknown }>;

interface Operation {
  summary: string;
  description?: string;
  tags?: string[];
  security?: Record<string, string[]>[];
  parameters?: { name: string; in: string; required?: boolean; description?: string; schema: Schema }[];
  requestBody?: { required?: boolean; content: Content };
  responses: Record<string, Answer>;
}

/** The parts of the OpenAPI document that the API reference shows. */
export interface OpenApi {
  info: { title: string; description: string };
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  webhooks?: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema>; securitySchemes?: Record<string, { description?: string }> };
}

interface Shown {
  method: string;
  path: string;
  operation: Operation;
}

const SCHEMAS = "schemas.md";

/** Returns the API reference as Markdown pages in `api/`: an index, a page for each tag, the webhooks, and the named schemas. */
export function referencePages(document: OpenApi): Page[] {
  const { info, tags, paths, webhooks = {}, components } = document;
  addExamples(document);
  const operations = shownOf(paths);
  const bearer = components.securitySchemes?.bearer?.description;
  const groups = tags.map(({ name, description }) => {
    const own = operations.filter(({ operation }) => operation.tags?.includes(name));
    return { path: `${slug(name)}.md`, name, description, own };
  });
  const sent = {
    path: "webhook-requests.md",
    name: "Webhook requests",
    description: "Requests that the app sends to webhooks.",
    own: shownOf(webhooks),
  };
  const all = [...groups, ...(sent.own.length > 0 ? [sent] : [])];
  const index = [
    `# HTTP API`,
    plain(info.description),
    "These pages are made from the OpenAPI document that this repository's Worker serves at `/openapi.json`.",
    bearer === undefined ? "" : plain(bearer),
    ...all.flatMap(({ path, name, description, own }) => [
      `## ${plain(name)}`,
      `${plain(description)} [Read the operations](${path}).`,
      table(
        ["operation", "request"],
        own.map(({ method, path: at, operation }) => [
          `[${plain(operation.summary)}](${path}#${slug(operation.summary)})`,
          `\`${method} ${at}\``,
        ]),
      ),
    ]),
    "## Problem codes",
    table(["status", "code", "meaning"], problemRows(operations)),
    "## Schemas",
    `[Schemas](${SCHEMAS}) lists the fields of each named schema.`,
  ];
  const named = Object.entries(components.schemas).flatMap(([name, schema]) => [
    `## ${name}`,
    plain(schema.description ?? ""),
    fieldTable(schema) || `Type: ${typeOf(schema)}.`,
  ]);
  return [
    { path: "api/index.md", title: "HTTP API", about: "all operations", text: joined(index) },
    ...all.map(({ path, name, description, own }) => ({
      path: `api/${path}`,
      title: name,
      about: description,
      text: joined([`# ${plain(name)}`, plain(description), ...own.flatMap(operationParts)]),
    })),
    { path: `api/${SCHEMAS}`, title: "Schemas", about: "fields of each named schema", text: joined(["# Schemas", ...named]) },
  ];
}

/** Adds an example to each JSON body and each JSON response of status 2xx if the document has none. */
function addExamples(document: OpenApi): void {
  for (const { requestBody, responses } of Object.values(document.paths).flatMap((item) => Object.values(item))) {
    const good = Object.entries(responses).flatMap(([status, answer]) => (status < "3" ? [answer] : []));
    for (const [type, media] of [requestBody, ...good].flatMap((one) => Object.entries(one?.content ?? {}))) {
      if (type.endsWith("json") && media.schema)
        media.example ??= sample(media.schema as object, { skipNonRequired: true, quiet: true }, document);
    }
  }
}

function shownOf(paths: OpenApi["paths"]): Shown[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
}

function operationParts({ method, path, operation }: Shown): string[] {
  const { summary, description = "", security, parameters = [], requestBody, responses } = operation;
  const [answers, problems] = [false, true].map((wanted) => Object.entries(responses).filter(([, answer]) => isProblem(answer) === wanted));
  return [
    `## ${plain(summary)}`,
    `\`${method} ${path}\``,
    security === undefined ? "" : tokenOf(security),
    plain(description),
    ...(parameters.length === 0 ? [] : ["**Parameters**"]),
    table(
      ["name", "in", "type", "required", "description"],
      parameters.map(({ name, in: place, required, description = "", schema }) => [
        ...[`\`${name}\``, place, typeOf(schema), required ? "yes" : "no", detailsOf({ ...schema, description })],
      ]),
    ),
    ...(requestBody === undefined ? [] : ["**Body**", ...contentParts(requestBody.content)]),
    "**Answers**",
    ...(answers ?? []).flatMap(([status, { description, headers = {}, content = {} }]) => [
      `\`${status}\` ${plain(description)}`,
      table(
        ["header", "description"],
        Object.entries(headers).map(([name, header]) => [`\`${name}\``, plain(header.description ?? "")]),
      ),
      ...contentParts(content),
    ]),
    refusalsOf(problems ?? []),
  ];
}

/** Lists each error code of the API once, with the meaning of the code. */
function problemRows(operations: readonly Shown[]): string[][] {
  const said = operations.flatMap(({ operation: { responses } }) =>
    Object.entries(responses).flatMap(([status, answer]) =>
      isProblem(answer) ? answer.description.split(" · ").map((one) => `${status} ${one}`) : [],
    ),
  );
  return [...new Set(said)].toSorted().map((one) => /^(\d+) (`\w+`): (.*)$/.exec(one)?.slice(1) ?? ["", "", one]);
}

function isProblem({ content = {} }: Answer): boolean {
  return content["application/problem+json"] !== undefined;
}

/** Lists an operation's error statuses with their codes in one line, without meanings, because the index has the meaning of each code. */
function refusalsOf(problems: [status: string, answer: Answer][]): string {
  if (problems.length === 0) return "";
  const each = problems.map(([status, { description }]) => [`${status}:`, ...codesOf(description)].join(" "));
  return `A refusal is a [Problem](${SCHEMAS}#problem) with one of these [codes](index.md#problem-codes). ${each.join("; ")}.`;
}

function codesOf(description: string): string[] {
  return description.match(/`\w+`/g) ?? [plain(description)];
}

function tokenOf(security: Record<string, string[]>[]): string {
  if (security.length === 0) return "No token is needed.";
  const scopes = security.flatMap((one) => Object.values(one).flat()).map((scope) => `\`${scope}\``);
  return `A token with scope ${scopes.join(" or ")}.`;
}

/** Renders the fields and the example of each media type that has fields or an example. */
function contentParts(content: Content): string[] {
  return Object.entries(content).flatMap(([type, { schema = {}, example }]) => [
    `\`${type}\`: ${typeOf(schema)}`,
    schema.$ref === undefined ? fieldTable(schema) : "",
    example === undefined ? "" : fence(example),
  ]);
}

function fence(example: unknown): string {
  const text = typeof example === "string" ? example : JSON.stringify(example, null, 2);
  const marks = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
  return `${marks}${typeof example === "string" ? "" : "json"}\n${text}\n${marks}`;
}

function fieldTable(schema: Schema): string {
  return table(["field", "type", "required", "description"], fieldsOf(schema, "", 0));
}

/**
 * Returns the table rows of a schema's fields. The fields of a nested schema without a name follow, under names such as `a.b` and `a[].b`.
 */
function fieldsOf(schema: Schema, prefix: string, depth: number): string[][] {
  const { properties = {}, required = [], items, anyOf = [], oneOf = [], allOf = [], additionalProperties } = schema;
  if (depth > 4) return [];
  const own = Object.entries(properties).flatMap(([name, field]) => [
    [`\`${prefix}${name}\``, typeOf(field), required.includes(name) ? "yes" : "no", detailsOf(field)],
    ...fieldsOf(field, `${prefix}${name}.`, depth + 1),
  ]);
  const values = typeof additionalProperties === "object" ? fieldsOf(additionalProperties, `${prefix}*.`, depth + 1) : [];
  const parts = [...anyOf, ...oneOf, ...allOf].flatMap((one) => fieldsOf(one, prefix, depth + 1));
  const each = items ? fieldsOf(items, `${prefix.replace(/\.$/, "")}[].`, depth + 1) : [];
  return [...own, ...values, ...parts, ...each].filter((row, index, rows) => rows.findIndex((other) => `${other}` === `${row}`) === index);
}

function typeOf(schema: Schema): string {
  const { $ref, type, items, anyOf, oneOf, allOf, format, title } = schema;
  if ($ref !== undefined) {
    const name = $ref.split("/").at(-1) ?? "";
    return `[${name}](${SCHEMAS}#${slug(name)})`;
  }
  if (schema.enum) return schema.enum.map((value) => `\`${JSON.stringify(value)}\``).join(" or ");
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (type === "array") return `array of ${items ? typeOf(items) : "any"}`;
  const many = anyOf ?? oneOf ?? allOf;
  if (many) return [...new Set(many.map(typeOf))].join(allOf ? " and " : " or ");
  if (type === undefined) return title ? plain(title) : "any";
  return `${[type].flat().join(" or ")}${format ? ` (${format})` : ""}`;
}

/** Returns the description of a field, with its bounds. */
function detailsOf(schema: Schema): string {
  const bounds = [
    ["at least", "minimum"],
    ["at most", "maximum"],
    ["more than", "exclusiveMinimum"],
    ["less than", "exclusiveMaximum"],
    ["characters at least", "minLength"],
    ["characters at most", "maxLength"],
    ["items at least", "minItems"],
    ["items at most", "maxItems"],
    ["pattern", "pattern"],
    ["default", "default"],
  ].flatMap(([words, name = ""]) =>
    schema[name] === undefined ? [] : [`${words} \`${typeof schema[name] === "string" ? schema[name] : JSON.stringify(schema[name])}\``],
  );
  return [plain(schema.description ?? ""), bounds.length > 0 ? `(${bounds.join(", ")})` : ""].filter((text) => text !== "").join(" ");
}

/** Renders a Markdown table. If there are no rows, the result is empty. */
function table(head: string[], rows: string[][]): string {
  if (rows.length === 0) return "";
  const line = (cells: string[]) =>
    `| ${cells.map((cell) => cell.replaceAll(/\s*\n\s*/g, " ").replaceAll(/(?<!\\)\|/g, "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

/**
 * Converts a description in the OpenAPI document to Markdown. Code in backticks is unchanged, and all other characters of Markdown syntax
 * are escaped.
 */
function plain(text: string): string {
  const parts = text.split(/(`+[^`]+`+)/);
  return parts.map((part, index) => (index % 2 === 1 ? part : part.replaceAll(/[\\*<>[\]!&#~]/g, "\\$&"))).join("");
}

function joined(parts: string[]): string {
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

/** Returns the anchor of a heading, as GitHub generates it. */
export function slug(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}
