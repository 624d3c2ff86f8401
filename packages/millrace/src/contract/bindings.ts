import { exports } from "cloudflare:workers";
import { MillraceError } from "./errors.ts";
import { assertSecret } from "./ids.ts";
import { laneIn, type QueueDefinition, queuesOf } from "./queue.ts";

/**
 * The bindings and variables that the engine needs in a Worker's env. Queues and workflows are found by their names. A Durable Object or a
 * Workflow without a binding is found by the class that the Worker exports.
 */
export interface EngineEnv {
  /** The one database: the engine's tables beside the app's. */
  DB: D1Database;
  /** Large payloads and outputs. */
  PAYLOADS: R2Bucket;
  /** Default: the exported class `Recorder`. */
  RECORDER?: DurableObjectNamespace;
  /** How many recorders share the instances among them, 1 to 256; default 2. May change at any time. */
  RECORDER_SHARDS?: string | number;
  /** Default: the exported class `Keeper`. */
  KEEPER?: DurableObjectNamespace;
  /** The beginning of the names of this environment's queues in the account, such as "staging-". Default: empty. */
  QUEUE_PREFIX?: string;
  /** A dataset of Analytics Engine, to which what is counted goes as well. Default: unset. */
  METRICS?: AnalyticsEngineDataset;
  /** Secret from which upstream idempotency keys are derived. Never change it while instances are open. */
  MILLRACE_KEY: string;
  /**
   * "true" where people write code, as `npm start` and tests set it: what is only suspected of a workflow's code is said in the log.
   * Default: unset.
   */
  MILLRACE_DEVELOPMENT?: string;
  /** Log lines about what went well that an isolate writes in a second before it samples them by their trace; default 50. */
  LOG_GOOD_PER_SECOND?: string | number;
  /** The whole address that spans are posted to by OTLP/HTTP, path and all. Default: unset, no spans. */
  OTLP_ENDPOINT?: string;
  /** Secret headers of that request, as OpenTelemetry writes them: `name=value,name=value`, values percent-encoded. */
  OTLP_HEADERS?: string;
  /** The share of the sampled traces whose spans are exported, 0 to 1, chosen by the trace's id; default 1. */
  OTLP_RATIO?: string | number;
  /** What this deployment is called there (`service.name`); default "millrace". */
  OTLP_SERVICE?: string;
  /** `plain` sends the names that callers choose and the words of errors with the spans; default `hashed`. */
  OTLP_NAMES?: string;
}

/** The queue for the commands of workflows that declare an `input`. */
export const DEFAULT_QUEUE = "millrace";

/**
 * The binding that carries a name: `publish-commands` is bound as `PUBLISH_COMMANDS`. One rule instead of one setting per binding. The
 * default queue alone is bound as `MILLRACE_QUEUE`.
 */
export function bindingName(name: string): string {
  return name === DEFAULT_QUEUE ? "MILLRACE_QUEUE" : name.replaceAll("-", "_").toUpperCase();
}

/** The lists of `wrangler.jsonc` in which the engine's own bindings stand, and their lines there. */
const OWN = {
  DB: ["d1_databases", { binding: "DB", database_name: "millrace" }],
  PAYLOADS: ["r2_buckets", { binding: "PAYLOADS", bucket_name: "millrace-payloads" }],
} as const satisfies Partial<Record<keyof EngineEnv, readonly [list: string, line: object]>>;

/** The engine's own Durable Objects, which every Worker with the engine has. */
const OBJECTS = ["RECORDER", "KEEPER"] as const;

/**
 * Refuses to work in an env that lacks one of the engine's own bindings: asked where requests, batches and passes come in, so that none
 * ends half-way. Errors: `config_invalid`, with the line that is missing.
 */
export function assertBound(env: EngineEnv): void {
  for (const [binding, [list, line]] of Object.entries(OWN)) {
    if (env[binding as keyof typeof OWN] === undefined) throw notBound(binding, list, line);
  }
  for (const binding of OBJECTS) objectBinding(env, binding);
}

/** The same where something is signed, or a signature compared. Errors: `config_invalid`, also without `MILLRACE_KEY`. */
export function assertReady(env: EngineEnv): void {
  assertBound(env);
  assertSecret(env.MILLRACE_KEY);
}

/** True for the env of a Worker that has the engine, and not only an object of it. */
export function hasEngine(env: unknown): env is EngineEnv {
  const isBound = (binding: string) => (env as Record<string, unknown>)[binding] !== undefined;
  return Object.keys(OWN).every(isBound) && OBJECTS.every((binding) => objectsIn(env as object, binding) !== undefined);
}

/** The producer side of a queue. Errors: `config_invalid`, with the line that is missing, when `wrangler.jsonc` does not bind it. */
export function queueBinding(env: object, queue: string): Queue {
  const bound = (env as Record<string, unknown>)[bindingName(queue)] as Queue | undefined;
  if (bound !== undefined) return bound;
  throw notBound(queue, "queues.producers", { binding: bindingName(queue), queue: `${queuePrefix(env)}${queue}` });
}

/** The beginning of the names of this environment's queues in the account. */
export function queuePrefix(env: object): string {
  return (env as Pick<EngineEnv, "QUEUE_PREFIX">).QUEUE_PREFIX ?? "";
}

/**
 * Refuses to send where nothing could take it, whichever of the queues it stands for. Errors: `config_invalid`, with what is missing in
 * `wrangler.jsonc`.
 */
export function assertSendable(env: object, queue: QueueDefinition): void {
  if (laneIn(queue.name) === undefined) for (const name of queuesOf(queue)) queueBinding(env, name);
  else if (objectsIn(env, "LANES") === undefined) throw lanesNotBound(queue.name);
}

function lanesNotBound(queue: string): MillraceError {
  const exporting = "export class Lanes extends engineLanes(app) {}";
  return new MillraceError("config_invalid", `"${queue}" has no object to wait in. ${toAdd("Lanes")}, and to the Worker: ${exporting}`);
}

/**
 * The Workflow that runs a definition: its binding, else the exported class of its name, else the exported class `Runs`. Errors:
 * `config_invalid`, with the line that is missing.
 */
export function workflowBinding(env: object, workflow: string): Workflow {
  const found = boundWorkflow(env, workflow);
  if (found !== undefined) return found;
  const shared = written({ Runs: { type: "workflow", name: "<the Worker's name>-runs" } });
  const own = written({ binding: bindingName(workflow), name: workflow, class_name: className(workflow) });
  throw new MillraceError(
    "config_invalid",
    `"${workflow}" is not bound. Export Runs of millrace({ … }) from the Worker's main file, and add this line to "exports" in wrangler.jsonc: ${inner(shared)}. For a class of the workflow alone, add this line to "workflows": ${own}`,
  );
}

function boundWorkflow(env: object, workflow: string): Workflow | undefined {
  const binding = bindingName(workflow);
  if (binding in env) return (env as Record<string, Workflow | undefined>)[binding];
  return exportedWorkflow(className(workflow)) ?? exportedWorkflow("Runs");
}

/** True where the Worker can start this workflow. */
export function isBound(env: object, workflow: string): boolean {
  return boundWorkflow(env, workflow) !== undefined;
}

/** The namespace of an object class: its binding, else the exported class. Undefined where the Worker has neither. */
export function objectsIn<T extends Rpc.DurableObjectBranded | undefined = undefined>(
  env: object,
  binding: string,
): DurableObjectNamespace<T> | undefined {
  const found = binding in env ? (env as Record<string, unknown>)[binding] : exportedObject(objectClass(binding));
  return found as DurableObjectNamespace<T> | undefined;
}

/** The namespace of an object class that the code needs. Errors: `config_invalid`, with the line that is missing. */
export function objectBinding<T extends Rpc.DurableObjectBranded | undefined = undefined>(
  env: object,
  binding: string,
): DurableObjectNamespace<T> {
  const found = objectsIn<T>(env, binding);
  if (found !== undefined) return found;
  const name = objectClass(binding);
  const exporting = `Export ${name}, which millrace/worker has, from the Worker's main file`;
  throw new MillraceError("config_invalid", `${binding} is not bound. ${exporting}. ${toAdd(name)}.`);
}

/** A Worker has its Durable Objects under one of both keys: wrangler takes no configuration with both. */
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

/** An entry of a map, without the braces of the map. */
function inner(map: string): string {
  return map.slice(1, -1);
}

/** `publish-article` is exported as `PublishArticle`. */
function className(workflow: string): string {
  return workflow.replaceAll(/(?:^|-)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** The class of a binding: `RATE_LIMIT` is of the class `RateLimit`. */
function objectClass(binding: string): string {
  return className(binding.toLowerCase().replaceAll("_", "-"));
}

// A handler or a WorkerEntrypoint among the exports has every method that is asked for: so two are asked for.

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
