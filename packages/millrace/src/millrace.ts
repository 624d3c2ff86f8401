import type { EngineEnv } from "./contract/bindings.ts";
import { assertDeclared } from "./contract/declared.ts";
import { logLine } from "./contract/log-line.ts";
import { Counter } from "./counters/counter.ts";
import type { EngineRoutesOptions } from "./http/engine-routes.ts";
import { loadRoutes } from "./http/lazy-routes.ts";
import { armKeeper, ofEveryKeeper } from "./keeper/client.ts";
import { type Duties, keeper } from "./keeper/keeper.ts";
import { RateLimit } from "./limits/rate-limit.ts";
import { Lock } from "./locks/lock.ts";
import { dispatch } from "./operate/letters/repair.ts";
import { Recorder } from "./recorder/recorder.ts";
import { type Catalog, catalog, type Definition } from "./topology/catalog.ts";
import { type ConsumerDefinition, defineConsumer } from "./topology/consumer.ts";
import { missingIn } from "./topology/described.ts";
import { type RunsClass, runs } from "./workflow/entrypoint.ts";
import type { AnyWorkflow } from "./workflow/workflow.ts";

/** The handlers are declared as methods, so that TypeScript accepts a handler with a narrower `Env` or `Request`. */
interface OwnHandlers<Env> {
  fetch(request: Request, env: Env, ctx: ExecutionContext): Response | Promise<Response>;
  queue(batch: MessageBatch, env: Env, ctx: ExecutionContext): unknown;
  scheduled(controller: ScheduledController, env: Env, ctx: ExecutionContext): unknown;
}

/** The options of `millrace`. Each option has a default. */
export interface MillraceOptions<Env = Cloudflare.Env> extends Omit<Definition, "consumers">, Omit<Duties, "catalog"> {
  /**
   * The workflows that perform commands. A queue of these workflows that has no entry in `consumers` gets a consumer with the default
   * settings.
   */
  readonly workflows?: readonly AnyWorkflow[] | undefined;
  /** The consumers that need settings other than the defaults, or routes of events. */
  readonly consumers?: readonly ConsumerDefinition[] | undefined;
  /** Options of the engine's HTTP API and console. */
  readonly http?: EngineRoutesOptions | undefined;
  /**
   * Handles each request that matches no route of the engine. Default: the engine answers 404. Annotate the handler's return type if the
   * handler uses the `catalog` that the same call of `millrace` returns: `fetch(request, env): Promise<Response> { … }`.
   */
  fetch?: OwnHandlers<Env>["fetch"] | undefined;
  /**
   * Handles the batches of queues that are not in the catalog. By default the messages of such batches return to the queue, and an error is
   * logged.
   */
  queue?: OwnHandlers<Env>["queue"] | undefined;
  /** Runs at each cron trigger, in addition to the engine's schedules. */
  scheduled?: OwnHandlers<Env>["scheduled"] | undefined;
  /** The cron expression of a trigger that is only for the engine's schedules. `scheduled` does not run at that trigger. */
  readonly engineCron?: string | undefined;
}

/** The Worker's default export. */
interface Handler<Env> {
  fetch(request: Request, env: Env, ctx: ExecutionContext): Promise<Response>;
  queue(batch: MessageBatch, env: Env, ctx: ExecutionContext): Promise<void>;
  scheduled(controller: ScheduledController, env: Env, ctx: ExecutionContext): Promise<void>;
}

/** Everything that a Worker exports. */
export interface Millrace<Env = Cloudflare.Env> {
  readonly handler: Handler<Env>;
  /** The catalog, for `enqueueOne` and similar functions. */
  readonly catalog: Catalog;
  /** The Workflow class that the platform runs for every workflow of the catalog. */
  readonly Runs: RunsClass;
  readonly Recorder: typeof Recorder;
  readonly Keeper: ReturnType<typeof keeper>;
  readonly RateLimit: typeof RateLimit;
  readonly Lock: typeof Lock;
  readonly Counter: typeof Counter;
}

/** Path prefixes of the engine's routes. Requests with other paths do not load the routes. */
const ENGINE_PATHS = /^\/(?:v1|inbound|console|mcp|metrics|healthz|problems|openapi\.json)(?:\/|$)/;

/**
 * Makes a Worker from its workflows: `export const { handler, Runs, Recorder, Keeper } = millrace({ workflows: [greet] })`, and
 * `export default handler`. Errors: `config_invalid`, as `catalog`.
 */
export function millrace<Env extends object = Cloudflare.Env>(options: MillraceOptions<Env>): Millrace<Env> {
  const {
    workflows = [],
    consumers = [],
    http,
    fetch,
    queue,
    scheduled,
    engineCron,
    retention,
    gauges,
    alerts,
    checks,
    ...definition
  } = options ?? {};
  const app = catalog({ ...definition, consumers: withStarts(consumers, workflows) });
  const duties = { catalog: app, ...defined({ retention, gauges, alerts, checks }) };
  return {
    handler: handlerOf(app, { http, fetch, queue, scheduled, engineCron }),
    catalog: app,
    Runs: class Runs extends runs(app) {},
    Recorder,
    Keeper: keeper(duties),
    RateLimit,
    Lock,
    Counter,
  };
}

type Handling<Env> = Pick<MillraceOptions<Env>, "http" | "fetch" | "queue" | "scheduled" | "engineCron">;

function handlerOf<Env extends object>(app: Catalog, { http, fetch, queue, scheduled, engineCron }: Handling<Env>): Handler<Env> {
  const consume = dispatch(app);
  let routes: ReturnType<Awaited<ReturnType<typeof loadRoutes>>> | undefined;
  const begin = (env: Env, ctx: ExecutionContext): EngineEnv => {
    const own = env as unknown as EngineEnv;
    armKeeper(own, ctx);
    logMissing(own, app);
    return own;
  };
  return {
    async fetch(request, env, ctx) {
      const own = begin(env, ctx);
      const { pathname } = new URL(request.url);
      if (fetch !== undefined && !ENGINE_PATHS.test(pathname)) return fetch(request, env, ctx);
      // The HTTP API is large, and many isolates never get a request for it.
      const build = await loadRoutes();
      routes ??= build(app, http ?? {}, new WeakSet());
      const api = routes;
      const isOurs = fetch === undefined || METHODS.some((method) => api.router.match(method, pathname)[0].some(isRoute));
      return isOurs ? api.fetch(request, own, ctx) : fetch(request, env, ctx);
    },
    async queue(batch, env, ctx) {
      await consume(batch, begin(env, ctx), queue && ((other) => queue(other, env, ctx)));
    },
    async scheduled(controller, env, ctx) {
      const own = begin(env, ctx);
      const isTheirs = engineCron === undefined || controller.cron !== engineCron;
      const both = await Promise.allSettled([
        ofEveryKeeper(own, async (one) => one.startDue()),
        (async () => isTheirs && scheduled?.(controller, env, ctx))(),
      ]);
      for (const one of both) if (one.status === "rejected") throw one.reason;
    },
  };
}

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/** True for a route, false for middleware. */
const isRoute = ([[, { method }]]: readonly [readonly [unknown, { method: string }], ...unknown[]]): boolean => method !== "ALL";

/** Adds each workflow to the `starts` of its queue's consumer, and creates a consumer for each queue without a consumer. */
function withStarts(consumers: readonly ConsumerDefinition[], workflows: readonly AnyWorkflow[]): ConsumerDefinition[] {
  const isDefined = workflows.every((workflow) => workflow?.on?.queue !== undefined);
  assertDeclared(
    isDefined,
    "The list `workflows` of millrace({ … }) contains a value that defineWorkflow did not make. Is it exported, and imported by its name?",
  );
  const byQueue = Map.groupBy(workflows, ({ on }) => on.queue.name);
  const missing = (queue: string, starts: readonly AnyWorkflow[] = []) => (byQueue.get(queue) ?? []).filter((one) => !starts.includes(one));
  const given = new Set(consumers.map(({ queue }) => queue?.name));
  return [
    ...consumers.map((one) => (one.starts ? { ...one, starts: [...one.starts, ...missing(one.queue.name, one.starts)] } : one)),
    ...[...byQueue].flatMap(([name, starts]) => {
      const [first] = starts;
      return first === undefined || given.has(name) ? [] : [defineConsumer({ queue: first.on.queue, starts })];
    }),
  ];
}

const logged = new WeakSet<object>();

/** Logs once in each isolate the lines that `wrangler.jsonc` lacks for this catalog. */
function logMissing(env: EngineEnv, app: Catalog): void {
  if (logged.has(app)) return;
  logged.add(app);
  for (const error of missingIn(env, app)) logLine("error", { log: "config_invalid", error });
}

/** The options without undefined fields. */
function defined<T extends object>(options: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}
