import { MillraceError } from "./errors.ts";
import { assertSecret } from "./ids.ts";
import { laneIn, type QueueDefinition, queuesOf } from "./queue.ts";

/** What the engine itself needs of a Worker's env. Queues and workflows are found by their names. */
export interface EngineEnv {
  /** The one database: the engine's tables beside the app's. */
  DB: D1Database;
  /** Large payloads and outputs. */
  PAYLOADS: R2Bucket;
  RECORDER: DurableObjectNamespace;
  /** How many recorders share the instances among them, 1 to 256; default 2. May change at any time. */
  RECORDER_SHARDS?: string | number;
  KEEPER: DurableObjectNamespace;
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

/** The binding that carries a name: `publish-commands` is bound as `PUBLISH_COMMANDS`. One rule instead of one setting per binding. */
export function bindingName(name: string): string {
  return name.replaceAll("-", "_").toUpperCase();
}

/** The lists of `wrangler.jsonc` in which the engine's own bindings stand, and their lines there. */
const OWN = {
  DB: [
    "d1_databases",
    { binding: "DB", database_name: "millrace", database_id: "00000000-0000-0000-0000-000000000000", migrations_dir: "migrations" },
  ],
  PAYLOADS: ["r2_buckets", { binding: "PAYLOADS", bucket_name: "millrace-payloads" }],
  RECORDER: ["durable_objects.bindings", { name: "RECORDER", class_name: "Recorder" }],
  KEEPER: ["durable_objects.bindings", { name: "KEEPER", class_name: "Keeper" }],
} as const satisfies Partial<Record<keyof EngineEnv, readonly [list: string, line: object]>>;

/**
 * Refuses to work in an env that lacks one of the engine's own bindings: asked where requests, batches and passes come in, so that none
 * ends half-way. Errors: `config_invalid`, with the line that is missing.
 */
export function assertBound(env: EngineEnv): void {
  for (const [binding, [list, line]] of Object.entries(OWN)) {
    if (env[binding as keyof typeof OWN] === undefined) throw notBound(binding, list, line);
  }
}

/** The same where something is signed, or a signature compared. Errors: `config_invalid`, also without `MILLRACE_KEY`. */
export function assertReady(env: EngineEnv): void {
  assertBound(env);
  assertSecret(env.MILLRACE_KEY);
}

/** True for the env of a Worker that has the engine, and not only an object of it. */
export function hasEngine(env: unknown): env is EngineEnv {
  return Object.keys(OWN).every((binding) => (env as Record<string, unknown>)[binding] !== undefined);
}

/** The producer side of a queue. Errors: `config_invalid`, with the line that is missing, when `wrangler.jsonc` does not bind it. */
export function queueBinding(env: object, queue: string): Queue {
  return bindingOf(env, queue, "queues.producers", { queue }) as Queue;
}

/**
 * Refuses to send where nothing could take it, whichever of the queues it stands for. Errors: `config_invalid`, with what is missing in
 * `wrangler.jsonc`.
 */
export function assertSendable(env: object, queue: QueueDefinition): void {
  if (laneIn(queue.name) === undefined) for (const name of queuesOf(queue)) queueBinding(env, name);
  else if ((env as { LANES?: unknown }).LANES === undefined) throw lanesNotBound(queue.name);
}

function lanesNotBound(queue: string): MillraceError {
  return new MillraceError(
    "config_invalid",
    `"${queue}" has no object to wait in. Add { "name": "LANES", "class_name": "Lanes" } to "durable_objects.bindings" in wrangler.jsonc, ` +
      `"Lanes" to the "new_sqlite_classes" of a new migration there, and to the Worker: export class Lanes extends engineLanes(app) {}`,
  );
}

/** The workflow's binding. Errors: `config_invalid`, with the line that is missing, when `wrangler.jsonc` does not bind it. */
export function workflowBinding(env: object, workflow: string): Workflow {
  return bindingOf(env, workflow, "workflows", { name: workflow, class_name: className(workflow) }) as Workflow;
}

/** The namespace of an object class that an author's code asks for. Errors: `config_invalid`, with what is missing. */
export function objectBinding<T>(bound: T | undefined, binding: string, objectClass: string): T {
  if (bound !== undefined) return bound;
  const line = `{ "name": "${binding}", "class_name": "${objectClass}" }`;
  const said = `${binding} is not bound. Add this line to "durable_objects.bindings" in wrangler.jsonc, "${objectClass}" to "new_sqlite_classes" under "migrations", and export ${objectClass}, which millrace/worker has, from the Worker's main file: ${line}`;
  throw new MillraceError("config_invalid", said);
}

function bindingOf(env: object, name: string, list: string, rest: object): unknown {
  const binding = bindingName(name);
  const found = (env as Record<string, unknown>)[binding];
  if (found !== undefined) return found;
  throw notBound(name, list, { binding, ...rest });
}

function notBound(name: string, list: string, line: object): MillraceError {
  const written = JSON.stringify(line).replaceAll(/[:,](?=")/g, "$& ");
  return new MillraceError("config_invalid", `"${name}" is not bound. Add this line to "${list}" in wrangler.jsonc: ${written}`);
}

/** `publish-article` is exported as `PublishArticle`. */
function className(workflow: string): string {
  return workflow.replaceAll(/(?:^|-)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
