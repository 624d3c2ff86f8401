import type { Context, Hono, MiddlewareHandler, Schema as RouteSchema } from "hono";
import { refused } from "../access/refused.ts";
import { assertReady } from "../contract/bindings.ts";
import { ENGINE_HEADER } from "../contract/engine-header.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { Finder } from "../inspect/search/finder.ts";
import type { Schema } from "../store/schema.ts";
import type { Catalog } from "../topology/catalog.ts";
import { authenticate, sayAccess } from "./auth.ts";
import { assertReadable, drainBody } from "./body.ts";
import { consolePage } from "./console/console.ts";
import type { Elsewhere, FirstCommand, HttpEnv } from "./env.ts";
import { setHeaders } from "./headers.ts";
import type { Group } from "./openapi.ts";
import { openApi } from "./openapi.ts";
import { answererOf, HttpRefusal } from "./problem.ts";
import { ENGINE_PROBLEMS, type Problems } from "./problems.ts";
import { limitStrangers } from "./request-limits.ts";
import { type Operation, Routes } from "./router.ts";
import { accepting } from "./routes/accept.ts";
import { audit, instanceActs } from "./routes/acts.ts";
import { approvals } from "./routes/approvals.ts";
import { bulkActions } from "./routes/bulk-actions.ts";
import { catalogRoutes } from "./routes/catalog.ts";
import { deadLetters } from "./routes/dead-letters.ts";
import { deployment, METRICS_PATH } from "./routes/deployment.ts";
import { effects } from "./routes/effects.ts";
import { finding } from "./routes/find.ts";
import { instances } from "./routes/instances.ts";
import { lanes } from "./routes/lanes.ts";
import { limits } from "./routes/limits.ts";
import { MCP_PATH, type McpServing, mcp } from "./routes/mcp.ts";
import { problemsPage } from "./routes/problems-page.ts";
import { schedules } from "./routes/schedules.ts";
import { instanceStream, stream } from "./routes/streams.ts";
import { consoleSignIn, minting, tokens } from "./routes/tokens.ts";
import { workflows } from "./routes/workflows.ts";

/** Additions of an app to the engine's routes. */
export interface EngineRoutesOptions {
  /** Routes of the app. The OpenAPI document contains these routes. Under /v1 they require the same tokens as the engine's routes. */
  // biome-ignore lint/suspicious/noExplicitAny: their bindings are the app's, and nothing here reads them
  routes?: readonly (Routes<any> | readonly Operation[])[];
  /** Groups of these routes in the OpenAPI document. */
  groups?: readonly Group[];
  /** All problem codes of the deployment. Default: the engine's problem codes. */
  problems?: Problems;
  /** Scopes of the app, which tokens can have in addition to the engine's scopes. */
  scopes?: readonly string[];
  /** Verbs of the app, which the audit stores in addition to the engine's verbs. */
  verbs?: readonly string[];
  /** First path segments of routes outside /v1 that authenticate their callers. They are exempt from the limit per address. */
  knowsCallers?: readonly string[];
  /** Finders of the app's items for GET /v1/search. */
  finders?: readonly Finder[];
  /** Lists of the app with more members of a job, which GET /v1/correlations/{id} names. */
  elsewhere?: Elsewhere;
  /** The tables and columns that each migration of the app creates: `/healthz` reports the first missing migration. */
  schema?: Schema;
  /** False removes the console at /console and its sign-in. Default true. */
  console?: boolean;
  /** Imports `millrace/mcp`, which serves the API as tools of the Model Context Protocol at /mcp. Default: no tools. */
  mcp?: () => Promise<McpServing>;
  /** The command that an empty console suggests on a development machine. Default: none. */
  firstCommand?: FirstCommand;
}

/** Builds the engine's routes. A request for which no route exists is added to `unmatched`, and the body of this request is not read. */
export function builtRoutes(catalog: Catalog, options: EngineRoutesOptions, unmatched: WeakSet<Request>): Routes<HttpEnv> {
  const { routes: given = [], groups = [], problems = ENGINE_PROBLEMS, scopes = [], verbs = [], knowsCallers = [] } = options;
  const { finders = [], elsewhere = () => [], schema = {}, console: hasConsole = true, mcp: loadMcp, firstCommand } = options;
  const api = new Routes<HttpEnv>();
  const answer = answererOf(given.filter((own) => own instanceof Routes));
  api.onError(answer);
  api.notFound((context) => {
    unmatched.add(context.req.raw);
    return answer(refusalOf(api, context), context);
  });
  const engine = { catalog, finders, elsewhere, schema, firstCommand };
  const limit = limitStrangers(["v1", "metrics", "mcp", "inbound", ...knowsCallers]);
  // Each middleware costs every request two promises, so a middleware has several tasks.
  api.use(async (context, next) => {
    context.set("problems", problems);
    context.set("engine", engine);
    sayAccess(context.env, scopes);
    await next();
    // Reads the rest of a refused body, within bounds, because a client that is still sending does not receive the response otherwise.
    if (context.res.status >= 400 && !unmatched.has(context.req.raw)) await drainBody(context.req.raw);
    mark(context);
  });
  api.use(async (context, next) => {
    assertReady(context.env);
    await limit(context);
    assertReadable(context.req);
    await next();
  });
  for (const known of ["/v1/*", METRICS_PATH, ...(loadMcp ? [MCP_PATH] : [])]) api.use(known, unstored, authenticate(scopes, schema));

  api.add(audit(verbs), minting(scopes), ...OPERATIONS);
  for (const own of given) own instanceof Routes ? api.include(own) : api.add(...own);
  if (loadMcp) api.add(mcp(loadMcp, async (request, { env }) => api.fetch(request, env)));
  api.add(problemsPage);
  if (hasConsole) api.add(consoleSignIn).route("/", consolePage());
  return api.add(openApi(api.described, { groups, problems, scopes }));
}

const OPERATIONS = [
  ...accepting,
  ...instances,
  ...instanceActs,
  ...effects,
  ...deadLetters,
  ...bulkActions,
  ...approvals,
  ...finding,
  ...catalogRoutes,
  ...schedules,
  ...workflows,
  ...lanes,
  ...limits,
  ...tokens,
  instanceStream,
  stream,
  ...deployment,
];

/** The types for a client: requests and responses of the engine's routes, by path and method. */
export type EngineApi = ApiOf<(typeof OPERATIONS)[number] | ReturnType<typeof audit> | ReturnType<typeof minting>>;
export type ApiOf<One> = One extends Operation<infer Schema extends RouteSchema> ? Hono<HttpEnv, Schema> : never;

function mark(context: Context<HttpEnv>): void {
  // A deployment or another request may change a response, so a cache revalidates it each time.
  const cached = context.res.headers.get("cache-control") ?? "no-cache";
  setHeaders(context, { [ENGINE_HEADER]: "v1", "x-content-type-options": "nosniff", "cache-control": cached });
}

/** No response of an authenticated route is cached. Refused requests are audited. */
const unstored: MiddlewareHandler<HttpEnv> = async (context, next) => {
  await next();
  setHeaders(context, { "cache-control": "no-store" });
  await auditRefusal(context);
};

function refusalOf(api: Routes<HttpEnv>, { req: { method, path } }: Context<HttpEnv>): HttpRefusal {
  const methods = ["GET", "POST", "PUT", "PATCH", "DELETE"].filter((method) =>
    api.router.match(method, path)[0].some(([[, route]]) => route.method !== "ALL"),
  );
  if (methods.length === 0) return new HttpRefusal("route_not_found", "There is no such route. GET /openapi.json lists them.");
  const allow = methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method])).join(", ");
  return new HttpRefusal("method_not_allowed", `This route takes ${allow}, not ${method}.`, { allow });
}

/** Statuses of refused actions: missing scope, not found, invalid state or request. */
const REFUSED: ReadonlySet<number> = new Set([403, 404, 409, 422]);
/** Scopes of routes that only send or read. Invalid requests to these routes are not audited. */
const SAYS: ReadonlySet<string> = new Set(["enqueue", "pull", "read"]);

/**
 * Audits refused requests before the response is sent. A refused change that is no action is audited only if a scope is missing. If the
 * database is unavailable, the response is sent without an audit row.
 */
async function auditRefusal(context: Context<HttpEnv>): Promise<void> {
  const { error, res, req, env } = context;
  const { status } = res;
  if (req.method === "GET" || req.method === "HEAD" || !REFUSED.has(status)) return;
  const { caller, needed } = context.var;
  if (caller === undefined || needed === undefined) return;
  if (status !== 403 && needed.scopes.every((scope) => SAYS.has(scope))) return;
  if (error instanceof MillraceError && error.detail.audited === true) return;
  const code = error instanceof MillraceError || error instanceof HttpRefusal ? error.code : "invalid_payload";
  try {
    await refused(env, caller, { route: needed.route, path: req.path, code, status });
  } catch (failure) {
    logLine("warn", { log: "refusal_not_audited", route: needed.route, code, error: messageOf(failure) });
  }
}
