import type { OpenAPIHono } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import { matchedRoutes } from "hono/route";
import { unknownField } from "../engine/index.ts";
import type { ApiEnv } from "./env.ts";
import { invalidRequest } from "./invalid-request.ts";

/**
 * Refuses what the query of a route does not know: whoever misspells a filter would be answered as if there were none. Errors:
 * `invalid_payload`.
 */
export function refuseParameters(api: OpenAPIHono<ApiEnv>): MiddlewareHandler<ApiEnv> {
  let parameters: ReadonlyMap<string, readonly string[]> | undefined;
  return async (context, next) => {
    const sent = [...new URL(context.req.url).searchParams.keys()];
    if (sent.length > 0) {
      parameters ??= parametersOf(api);
      const method = context.req.method === "HEAD" ? "GET" : context.req.method;
      const known = matchedRoutes(context)
        .map(({ path }) => parameters?.get(`${method} ${path}`))
        .find((one) => one !== undefined);
      const unknown = sent.filter((name) => known && !known.includes(name));
      if (known && unknown.length > 0) throw invalidRequest(unknown.slice(0, 50).map((name) => unknownField([name], known)));
    }
    await next();
  };
}

/** What each route's query knows, by its method and its path as the router writes it. */
function parametersOf(api: OpenAPIHono<ApiEnv>): ReadonlyMap<string, readonly string[]> {
  const routes = api.openAPIRegistry.definitions.flatMap((one) => (one.type === "route" ? [one.route] : []));
  return new Map(
    routes.map(({ method, path, request }) => [
      `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ":$1")}`,
      Object.keys((request?.query as { shape?: object } | undefined)?.shape ?? {}),
    ]),
  );
}
