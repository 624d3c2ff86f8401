import { type Json, send } from "./client.ts";

/** An operation in the form of the OpenAPI document. */
export interface Operation {
  method: string;
  path: string;
  /** Alternatives: a token needs every scope of one of them. Empty for a public operation, or an operation with other authentication. */
  scopes: string[][];
  parameters: { in: "path" | "query" | "header"; name: string; required?: boolean; schema: Json }[];
  /** The schema of the body by media type; empty for an operation without a body. */
  bodies: Record<string, Json>;
}

/** Every operation of the Worker's document, with its references resolved. */
export async function operations(): Promise<{ all: Operation[]; resolve: (schema: Json) => Json }> {
  const { body: document } = await send("/openapi.json");
  const resolve = (schema: Json): Json =>
    schema?.$ref
      ? resolve(
          schema.$ref
            .slice(2)
            .split("/")
            .reduce((at: Json, key: string) => at[key], document),
        )
      : schema;
  const all = Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item).map(([method, { security = [], parameters = [], requestBody }]) => ({
      method: method.toUpperCase(),
      path,
      scopes: security.flatMap(({ bearer }: Json) => (bearer ? [bearer] : [])),
      parameters: parameters.map(resolve),
      bodies: Object.fromEntries(Object.entries<Json>(resolve(requestBody)?.content ?? {}).map(([type, { schema }]) => [type, schema])),
    })),
  );
  return { all, resolve };
}
