export interface Field {
  readonly name: string;
  readonly in: "path" | "query" | "header" | "body";
  readonly type: "text" | "number" | "flag" | "time" | "texts" | "numbers" | "json";
  readonly needed?: true;
  readonly values?: readonly string[];
  readonly says?: string;
}

export interface Operation {
  /** The noun and the verb of the operation's command, such as `schedules pause`. */
  readonly command: string;
  readonly method: string;
  readonly path: string;
  readonly does: string;
  readonly fields: readonly Field[];
  readonly columns?: readonly string[];
  /** The maximum number of items per page in the list that the operation returns. */
  readonly page?: number;
  /** A sentence about the result of an action, without the full stop at the end. */
  readonly done?: string;
  readonly hasBody?: true;
}

// biome-ignore lint/suspicious/noExplicitAny: a part of a document, which its reader knows
type Json = Record<string, any>;

/** The operations of an OpenAPI document that have a command. operations.json contains those of the engine. */
export function operationsIn({ paths, components }: Json): Operation[] {
  const resolved = (schema: Json = {}): Json => {
    const { $ref, anyOf, allOf } = schema;
    if ($ref) return resolved(components.schemas[$ref.split("/").at(-1)]);
    const [one] = (anyOf ?? []).filter(({ type }: Json) => type !== "null");
    if (allOf) return { ...schema, properties: Object.assign({}, ...allOf.map((part: Json) => resolved(part).properties)) };
    return one ? { ...schema, ...resolved(one) } : schema;
  };
  const fieldOf = (name: string, place: Field["in"], given: Json, needed: boolean): Field => {
    const schema = resolved(given);
    const values = schema.enum ?? (schema.const === undefined ? undefined : [schema.const]);
    const usual =
      "default" in schema && !["", false, "false"].includes(schema.default) && !/default/i.test(schema.description ?? "")
        ? `Default ${schema.default}.`
        : "";
    const says = [given.description ?? schema.description ?? "", usual].join(" ").trim().replaceAll(/`/g, "");
    const type = typeOf(schema, values, resolved(schema.items));
    return { name, in: place, type, ...(needed && { needed }), ...(values && { values }), ...(says && { says }) };
  };
  const operationOf = (method: string, path: string, operation: Json): Operation => {
    const { parameters = [], requestBody, responses, summary } = operation;
    const body = resolved(requestBody?.content["application/json"]?.schema);
    const [, answer = {}] = Object.entries<Json>(responses).findLast(([status]) => status < "3") ?? [];
    const { items, next_cursor } = resolved(answer.content?.["application/json"]?.schema).properties ?? {};
    const limit = parameters.find(({ name }: Json) => name === "limit");
    return {
      command: operation["x-command"],
      method: method.toUpperCase(),
      path,
      does: summary,
      fields: [
        ...parameters.flatMap(({ name, in: place, schema, required, description }: Json) =>
          place === "header" && name !== "idempotency-key" ? [] : [fieldOf(name, place, { description, ...schema }, required)],
        ),
        ...Object.entries<Json>(body.properties ?? {}).map(([name, schema]) =>
          fieldOf(name, "body", schema, (body.required ?? []).includes(name)),
        ),
      ],
      ...(items && { columns: columnsOf(resolved(resolved(items).items).properties ?? {}) }),
      ...(next_cursor && { page: limit?.schema.maximum }),
      ...(method !== "get" && !/^(The|One) (?!.* (is|was|continues)\b)/.test(answer.description) && { done: answer.description }),
      ...(requestBody && { hasBody: true as const }),
    };
  };
  const operations = Object.entries<Json>(paths).flatMap(([path, item]) =>
    Object.entries<Json>(item).flatMap(([method, operation]) => (operation["x-command"] ? [operationOf(method, path, operation)] : [])),
  );
  return operations.sort((a, b) => (a.command < b.command ? -1 : 1));
}

function typeOf({ type, format }: Json, values: readonly unknown[] | undefined, items: Json): Field["type"] {
  const [kind] = [type].flat().filter((one) => one !== "null");
  if (kind === "boolean" || values?.every((value) => value === "true" || value === "false")) return "flag";
  if (kind === "string") return format === "date-time" ? "time" : "text";
  if (kind === "integer" || kind === "number") return "number";
  if (kind === "array" && items.type === "string") return "texts";
  return kind === "array" && items.type === "integer" ? "numbers" : "json";
}

/** Chooses the columns of a list: up to six properties of its items, in the order id, status, further values, a time, a text. */
function columnsOf(properties: Json): string[] {
  const all = Object.keys(properties);
  const first = (...patterns: RegExp[]) => patterns.flatMap((pattern) => all.find((name) => pattern.test(name)) ?? []).slice(0, 1);
  const ends = [
    ...first(/^(accepted|created|asked|captured)_at$/, /^(at|since)$/, /_at$/),
    ...first(/^(question|why|error|message|reason|title|detail|means)$/),
  ];
  const firsts = [...first(/^(id|key|name)$/), ...first(/^(status|state)$/)];
  const isPlain = ({ type, items }: Json) =>
    [type].flat().every((one) => PLAIN.includes(one) || (one === "array" && items.type === "string"));
  const isOther = (name: string) => !/_at$|_id$|^since$|^at$|_version$/.test(name) && ![...firsts, ...ends].includes(name);
  const rest = all.filter((name) => isOther(name) && isPlain(properties[name]));
  return [...firsts, ...rest.slice(0, 6 - firsts.length - ends.length), ...ends];
}

const PLAIN: readonly string[] = ["string", "integer", "number", "null"];
