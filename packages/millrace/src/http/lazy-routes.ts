import { type Context, Hono } from "hono";
import { MillraceError } from "../contract/errors.ts";
import type { Catalog } from "../topology/catalog.ts";
import { messagesIn } from "../topology/described.ts";
import { drainBody } from "./body.ts";
import type { EngineRoutesOptions } from "./engine-routes.ts";
import type { FirstCommand, HttpEnv } from "./env.ts";

type Execution = Context<HttpEnv>["executionCtx"] | undefined;

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
  /** The engine's response; undefined, and a refusal in `refusals`, if the engine has no route for the request. */
  const respond = async (raw: Request, env: HttpEnv["Bindings"], execution: Execution) => {
    const build = builder ?? (await loadRoutes());
    built ??= build(catalog, options, unmatched);
    const answer = await built.fetch(raw, env, execution);
    if (!unmatched.has(raw)) return answer;
    refusals.set(raw, answer);
    return undefined;
  };
  const routes = new Hono<HttpEnv>();
  // Uses a separate Hono app, because the outer app may come from another copy of Hono, and contexts of two copies do not mix.
  routes.use(async (context, next) => {
    const { raw } = context.req;
    const answer = refusals.has(raw) ? undefined : await respond(raw, context.env, executionOf(context));
    return answer ?? next();
  });
  const { fetch } = routes;
  // Without an outer app, a request of the engine needs no context of the outer app.
  routes.fetch = async (raw, env, execution) => (await respond(raw, env as HttpEnv["Bindings"], execution)) ?? fetch(raw, env, execution);
  routes.notFound(async ({ req: { raw } }) => {
    await drainBody(raw);
    return refusals.get(raw) as Response;
  });
  return routes;
}

/** The execution context of a request; undefined in a test. */
function executionOf(context: Context<HttpEnv>): Execution {
  try {
    return context.executionCtx;
  } catch {
    return undefined;
  }
}

function assertOpen(catalog: Catalog, { type }: FirstCommand): void {
  const open = messagesIn(catalog).filter(({ definition: { kind, access } }) => kind === "command" && access?.scope != null);
  if (open.some(({ definition }) => definition.type === type)) return;
  const names = open.map(({ definition }) => definition.type).join(", ");
  throw new MillraceError(
    "config_invalid",
    `\`firstCommand\` names "${type}", which is not a command open to the outside. Open commands: ${names}.`,
  );
}
