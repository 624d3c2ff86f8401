import type { Json } from "./client.ts";

/** The values of a filter: the values that a test passes, each value of its enum, or one valid value. */
function valuesOf({ name, schema }: Json, known: Readonly<Record<string, string>>): string[] {
  const own = known[name];
  if (own !== undefined) return own.split("|");
  if (schema.enum) return schema.enum.map(String);
  if (schema.examples) return schema.examples.map(String);
  if (schema.format === "date-time") return ["2026-10-01T00:00:00Z"];
  if (schema.format === "date") return ["2026-10-01"];
  if (schema.type === "integer") return [String(Math.max(5, schema.minimum ?? 0))];
  return [{ cursor: "" }[name as string] ?? "x1"];
}

/**
 * Every JSON GET of the document, with each of its filters alone and with each pair of filters. `known` has the existing values of
 * filters, separated by bars.
 */
export function reads(document: Json, known: Readonly<Record<string, string>> = {}): { path: string; queries: string[] }[] {
  return Object.entries<Json>(document.paths).flatMap(([path, { get }]) => {
    const { schema } = get?.responses[200]?.content["application/json"] ?? {};
    if (!path.startsWith("/v1/") || !schema) return [];
    const filters = (get.parameters ?? []).filter(({ in: where, name }: Json) => where === "query" && !["limit", "cursor"].includes(name));
    const singles: string[][] = filters.map((filter: Json) =>
      valuesOf(filter, known).map((value) => `${filter.name}=${encodeURIComponent(value)}`),
    );
    const pairs = singles.flatMap((some, at) =>
      singles.slice(at + 1).flatMap((others) => some.flatMap((one) => others.map((two) => `${one}&${two}`))),
    );
    const bare = filters.some(({ required }: Json) => required) ? [] : [""];
    return [{ path, queries: [...bare, ...singles.flat(), ...pairs] }];
  });
}
