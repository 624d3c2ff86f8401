import type { OpenAPIHono } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import { matchedRoutes } from "hono/route";
import type { HttpEnv } from "./env.ts";
import { invalidRequest } from "./invalid-request.ts";

/** What names the work where a route has a name for it in its body; an app adds those of its own routes. */
const NAMED_BY: Readonly<Record<string, string>> = {
  "POST /v1/catalog/check": "it writes nothing; to ask about a key of your own, send `idempotency_key`",
  "POST /v1/commands/batch": "it cannot name a whole batch, so give each item its `idempotency_key`",
  "POST /v1/events/batch": "it cannot name a whole batch, so give each item its `idempotency_key`",
  "POST /v1/stream-tokens": "a token is minted for each who asks, and nothing is kept of it",
  "POST /v1/sign-in-codes": "a code is said once, and to nobody who asks again",
  "POST /v1/tokens": "a token is said once, and to nobody who asks again",
};

/**
 * Refuses `Idempotency-Key` on every route that changes something and does not document it: whoever sends one believes that the request can
 * be sent again, as a GET always can. Errors: `invalid_payload`.
 */
export function refuseKeys(api: OpenAPIHono<HttpEnv>, namedBy: Readonly<Record<string, string>>): MiddlewareHandler<HttpEnv> {
  let readers: ReadonlySet<string> | undefined;
  return async (context, next) => {
    const { method } = context.req;
    if (context.req.header("idempotency-key") !== undefined && method !== "GET" && method !== "HEAD") {
      readers ??= readersOf(api);
      const route = matchedRoutes(context).find((one) => one.method === method);
      if (route && !readers.has(`${method} ${route.path}`)) throw notRead(method, route.path, { ...NAMED_BY, ...namedBy });
    }
    await next();
  };
}

function notRead(method: string, path: string, namedBy: Readonly<Record<string, string>>) {
  const why =
    namedBy[`${method} ${path.replaceAll(/:(\w+)/g, "{$1}")}`] ??
    (method === "POST" ? "what it does has a name by its path" : `a ${method} can be sent again as it is`);
  return invalidRequest([{ path: "Idempotency-Key", message: `is not read by this route: ${why}. Leave the header out` }]);
}

/** The routes that document the header, as the router writes their paths. */
function readersOf(api: OpenAPIHono<HttpEnv>): ReadonlySet<string> {
  const routes = api.openAPIRegistry.definitions.flatMap((one) => (one.type === "route" ? [one.route] : []));
  return new Set(
    routes
      .filter(({ request }) => Object.hasOwn((request?.headers as { shape?: object } | undefined)?.shape ?? {}, "idempotency-key"))
      .map(({ method, path }) => `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ":$1")}`),
  );
}
