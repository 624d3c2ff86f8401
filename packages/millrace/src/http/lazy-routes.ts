import { type Context, Hono } from "hono";
import { MillraceError } from "../contract/errors.ts";
import type { Catalog } from "../topology/catalog.ts";
import { messagesIn } from "../topology/described.ts";
import { drainBody } from "./body.ts";
import type { EngineRoutesOptions } from "./engine-routes.ts";
import type { FirstCommand, HttpEnv } from "./env.ts";

let builder: typeof import("./engine-routes.ts").builtRoutes | undefined;

/** Loads the code of the routes on the first request. Requests must not share a promise, because each request has its own context. */
export async function loadRoutes(): Promise<NonNullable<typeof builder>> {
  builder ??= (await import("./engine-routes.ts")).builtRoutes;
  return builder;
}

/**
 * The engine's routes under /v1, /metrics, /healthz, /problems and /openapi.json, with tokens, limits and problem details. Use the routes
 * as a Worker's `fetch`, or mount the routes at the root of a Hono app: `app.route("/", engineRoutes(catalog))`. The first request builds
 * the routes, so that a Worker starts without them. Errors: `config_invalid` for a `firstCommand` that is not open.
 */
export function engineRoutes(catalog: Catalog, options: EngineRoutesOptions = {}): Hono<HttpEnv> {
  if (options.firstCommand) assertOpen(catalog, options.firstCommand);
  const unmatched = new WeakSet<Request>();
  const refusals = new WeakMap<Request, Response>();
  let built: Pick<Hono<HttpEnv>, "fetch"> | undefined;
  const routes = new Hono<HttpEnv>();
  // Uses a separate Hono app, because the outer app may come from another copy of Hono, and contexts of two copies do not mix.
  routes.use(async (context, next) => {
    const build = builder ?? (await loadRoutes());
    built ??= build(catalog, options, unmatched);
    const { raw } = context.req;
    const answer = await built.fetch(raw, context.env, executionOf(context));
    if (!unmatched.has(raw)) return answer;
    refusals.set(raw, answer);
    await next();
  });
  routes.notFound(async ({ req: { raw } }) => {
    await drainBody(raw);
    return refusals.get(raw) as Response;
  });
  return routes;
}

/** The execution context of a request; undefined in a test. */
function executionOf(context: Context<HttpEnv>): Context<HttpEnv>["executionCtx"] | undefined {
  try {
    return context.executionCtx;
  } catch {
    return undefined;
  }
}

/** Validates the first command. Errors: `config_invalid` for a command that is not open to external callers. */
function assertOpen(catalog: Catalog, { type }: FirstCommand): void {
  const open = messagesIn(catalog).filter(({ definition: { kind, door } }) => kind === "command" && door?.scope != null);
  if (open.some(({ definition }) => definition.type === type)) return;
  const names = open.map(({ definition }) => definition.type).join(", ");
  throw new MillraceError(
    "config_invalid",
    `\`firstCommand\` names "${type}", which is not a command open to the outside. Open commands: ${names}.`,
  );
}
