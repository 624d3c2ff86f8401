import { exports } from "cloudflare:workers";
import { type Elsewhere, leftBy } from "./elsewhere.ts";
import { MillraceError } from "./errors.ts";
import { assertSecret } from "./ids.ts";
import { laneIn, type QueueDefinition, queuesOf } from "./queue.ts";

/**
 * The bindings and variables of the engine in a Worker's env. Queues and workflows are found by their names. A Durable Object or Workflow
 * without a binding is found by the exported class.
 */
export interface EngineEnv {
  /** The database, with the tables of the engine and of the app. With several cells, the database of one cell. */
  DB: D1Database;
  /** The number of cells, whose databases are bound as DB, DB_2, DB_3, …; default 1. The number may only grow. */
  CELLS?: string | number;
  /** The cells that get new tenants, separated by commas. Default: all cells. */
  CELLS_OPEN?: string | number;
  /** The number of this env's cell, set by the engine; undefined in the first cell. */
  CELL?: number;
  /** The R2 bucket for large payloads and outputs. */
  PAYLOADS: R2Bucket;
  /** The Durable Object `Recorder`. Default: the exported class `Recorder`. */
  RECORDER?: DurableObjectNamespace;
  /** Number of recorders that share the instances, 1 to 256; default 2. The number may change at any time. */
  RECORDER_SHARDS?: string | number;
  /** The Durable Object `Keeper`. Default: the exported class `Keeper`. */
  KEEPER?: DurableObjectNamespace;
  /** Age in days, 1 to 400, at which ended instances move from the database to R2. Default: unset, ended instances are deleted. */
  ARCHIVE_AFTER_DAYS?: string | number;
  /** Prefix of this environment's queue names in the account, such as "staging-". Default: empty. */
  QUEUE_PREFIX?: string;
  /** A dataset of Analytics Engine, which also receives the counters. Default: unset. */
  METRICS?: AnalyticsEngineDataset;
  /** Secret from which upstream idempotency keys are derived. Never change the secret while instances are in progress. */
  MILLRACE_KEY: string;
  /** "true" logs suspected mistakes in a workflow's code. `npm start` and tests set this value. Default: unset. */
  MILLRACE_DEVELOPMENT?: string;
  /** Log lines about successes per second and isolate, before they are sampled by trace; default 50. */
  LOG_GOOD_PER_SECOND?: string | number;
  /** The full URL to which spans are posted by OTLP/HTTP. Default: unset, no spans. */
  OTLP_ENDPOINT?: string;
  /** Secret headers of the requests to `OTLP_ENDPOINT`, in OpenTelemetry's format: `name=value,name=value`, values percent-encoded. */
  OTLP_HEADERS?: string;
  /** The share of the sampled traces whose spans are exported, 0 to 1; default 1. The trace's id decides whether a trace is exported. */
  OTLP_RATIO?: string | number;
  /** The `service.name` of this deployment in traces; default "millrace". */
  OTLP_SERVICE?: string;
  /** `plain` exports the names chosen by callers and the error messages with the spans; default `hashed`. */
  OTLP_NAMES?: string;
}

/** The workflow that calls the `callback_url` of a command. */
export const SEND_CALLBACK = "send-callback";

/** The queue for the commands of workflows that declare an `input`. */
export const DEFAULT_QUEUE = "millrace";

/** The binding of a name: `publish-commands` is bound as `PUBLISH_COMMANDS`. Only the default queue is bound as `MILLRACE_QUEUE`. */
export function bindingName(name: string): string {
  return name === DEFAULT_QUEUE ? "MILLRACE_QUEUE" : name.replaceAll("-", "_").toUpperCase();
}

/** The entries of the engine's own bindings, for each list in `wrangler.jsonc`. */
const OWN = {
  DB: ["d1_databases", { binding: "DB", database_name: "<the Worker's name>" }],
  PAYLOADS: ["r2_buckets", { binding: "PAYLOADS", bucket_name: "<the Worker's name>-payloads" }],
} as const satisfies Partial<Record<keyof EngineEnv, readonly [list: string, line: object]>>;

const OBJECTS = ["RECORDER", "KEEPER"] as const;

/** The entry point of each object class that `millrace/worker` does not export. */
const OWN_DOORS: Readonly<Record<string, string>> = {
  ...{ RATE_LIMIT: "limits", LOCK: "locks", COUNTER: "counters" },
  ...{ LANES: "lanes", PULL_QUEUES: "pull", ROOMS: "rooms" },
};

/**
 * Refuses an env without one of the engine's own bindings. Called at the entry of requests, batches and replays, so that no request or
 * batch fails after a part of its work. Errors: `config_invalid`, with the missing line.
 */
export function assertBound(env: EngineEnv): void {
  for (const [binding, [list, line]] of Object.entries(OWN)) {
    if (env[binding as keyof typeof OWN] === undefined) throw notBound(binding, list, line);
  }
  for (const binding of OBJECTS) objectBinding(env, binding);
}

/**
 * Refuses an env without one of the engine's own bindings or without `MILLRACE_KEY`. Called before a signature is created or compared.
 * Errors: `config_invalid`.
 */
export function assertReady(env: EngineEnv): void {
  assertBound(env);
  assertSecret(env.MILLRACE_KEY);
}

/** True for the env of a Worker with the whole engine, and not only one of its Durable Objects. */
export function hasEngine(env: unknown): env is EngineEnv {
  const isBound = (binding: string) => (env as Record<string, unknown>)[binding] !== undefined;
  return Object.keys(OWN).every(isBound) && OBJECTS.every((binding) => objectsIn(env as object, binding) !== undefined);
}

/** The producer binding of a queue. Errors: `config_invalid`, with the missing line, when `wrangler.jsonc` does not bind it. */
export function queueBinding(env: object, queue: string): Queue {
  const bound = (env as Record<string, unknown>)[bindingName(queue)] as Queue | undefined;
  if (bound !== undefined) return bound;
  throw notBound(queue, "queues.producers", { binding: bindingName(queue), queue: `${queuePrefix(env)}${queue}` });
}

export function queuePrefix(env: object): string {
  return (env as Pick<EngineEnv, "QUEUE_PREFIX">).QUEUE_PREFIX ?? "";
}

/** Refuses a definition if one of its queues has no binding. Errors: `config_invalid`, with the missing line of `wrangler.jsonc`. */
export function assertSendable(env: object, queue: QueueDefinition): void {
  if (laneIn(queue.name) === undefined) for (const name of queuesOf(queue)) queueBinding(env, name);
  else if (objectsIn(env, "LANES") === undefined) throw lanesNotBound(queue.name);
}

function lanesNotBound(queue: string): MillraceError {
  const exporting = "export class Lanes extends engineLanes(app) {}";
  return new MillraceError(
    "config_invalid",
    `"${queue}" needs the Durable Object Lanes. ${toAdd("Lanes")}, and to the Worker: ${exporting}`,
  );
}

/**
 * The Workflow binding for a definition: the binding of the workflow, else the exported class of the workflow's name, else the exported
 * class `Runs`. Errors: `config_invalid`, with the missing line.
 */
export function workflowBinding(env: object, workflow: string, by?: Elsewhere): Workflow {
  const found = boundWorkflow(env, workflow, by);
  if (found !== undefined) return found;
  if (leftBy(by).has(workflow)) {
    const says = `"${workflow}" runs in another Worker. The keeper of that Worker continues the instance, or bind ${bindingName(workflow)} here with script_name.`;
    throw new MillraceError("config_invalid", says);
  }
  const shared = written({ Runs: { type: "workflow", name: "<the Worker's name>-runs" } });
  const own = written({ binding: bindingName(workflow), name: workflow, class_name: className(workflow) });
  throw new MillraceError(
    "config_invalid",
    `"${workflow}" is not bound. Export Runs of millrace({ … }) from the Worker's main file, and add this line to "exports" in wrangler.jsonc: ${inner(shared)}. For a class of the workflow alone, add this line to "workflows": ${own}`,
  );
}

/** True for a workflow that another Worker runs and this Worker does not bind. */
export function isElsewhere(env: object, workflow: string, by?: Elsewhere): boolean {
  return leftBy(by).has(workflow) && !isBound(env, workflow, by);
}

function boundWorkflow(env: object, workflow: string, by?: Elsewhere): Workflow | undefined {
  const binding = bindingName(workflow);
  if (binding in env) return (env as Record<string, Workflow | undefined>)[binding];
  // This Worker's `Runs` must not run a workflow of another Worker a second time.
  if (leftBy(by).has(workflow)) return undefined;
  return exportedWorkflow(className(workflow)) ?? exportedWorkflow("Runs");
}

export function isBound(env: object, workflow: string, by?: Elsewhere): boolean {
  return boundWorkflow(env, workflow, by) !== undefined;
}

/**
 * The namespace of an object class: its binding, else the exported class. Undefined if there is neither a binding nor an exported class.
 */
export function objectsIn<T extends Rpc.DurableObjectBranded | undefined = undefined>(
  env: object,
  binding: string,
): DurableObjectNamespace<T> | undefined {
  const found = binding in env ? (env as Record<string, unknown>)[binding] : exportedObject(objectClass(binding));
  return found as DurableObjectNamespace<T> | undefined;
}

/** The namespace of a required object class. Errors: `config_invalid`, with the missing line. */
export function objectBinding<T extends Rpc.DurableObjectBranded | undefined = undefined>(
  env: object,
  binding: string,
): DurableObjectNamespace<T> {
  const found = objectsIn<T>(env, binding);
  if (found !== undefined) return found;
  const name = objectClass(binding);
  const exporting = `Export ${name}, which millrace/${OWN_DOORS[binding] ?? "worker"} exports, from the Worker's main file`;
  throw new MillraceError("config_invalid", `${binding} is not bound. ${exporting}. ${toAdd(name)}.`);
}

/**
 * A Worker declares its Durable Objects under one of two keys in `wrangler.jsonc`, because wrangler refuses a configuration with both keys.
 */
function toAdd(name: string): string {
  const line = inner(written({ [name]: { type: "durable-object", storage: "sqlite" } }));
  return `Add this line to "exports" in wrangler.jsonc: ${line}. Where that file has "migrations", add "${name}" to the "new_sqlite_classes" of a new one instead`;
}

function notBound(name: string, list: string, line: object): MillraceError {
  return new MillraceError("config_invalid", `"${name}" is not bound. Add this line to "${list}" in wrangler.jsonc: ${written(line)}`);
}

function written(line: object): string {
  return JSON.stringify(line).replaceAll(/[:,](?=["{])/g, "$& ");
}

/** An entry of a JSON object, without the braces around it. */
function inner(map: string): string {
  return map.slice(1, -1);
}

/** The class name of a workflow: `publish-article` is exported as `PublishArticle`. */
function className(workflow: string): string {
  return workflow.replaceAll(/(?:^|-)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** The class name for the binding of a Durable Object: `RateLimit` for `RATE_LIMIT`. */
function objectClass(binding: string): string {
  return className(binding.toLowerCase().replaceAll("_", "-"));
}

// A check for one method of any name succeeds on an exported handler or WorkerEntrypoint, so two names are checked.

function exportedWorkflow(name: string): Workflow | undefined {
  const found = exported(name) as (Workflow & { idFromName?: unknown }) | undefined;
  return typeof found?.createBatch === "function" && found.idFromName === undefined ? found : undefined;
}

function exportedObject(name: string): DurableObjectNamespace | undefined {
  const found = exported(name) as (DurableObjectNamespace & { createBatch?: unknown }) | undefined;
  return typeof found?.idFromName === "function" && found.createBatch === undefined ? found : undefined;
}

function exported(name: string): unknown {
  return (exports as unknown as Record<string, unknown> | undefined)?.[name];
}
