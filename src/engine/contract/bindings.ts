import { MillraceError } from "./errors.ts";

/** What the engine itself needs of a Worker's env. Queues and workflows are found by their names. */
export interface EngineEnv {
  /** The one database: the engine's tables beside the app's. */
  DB: D1Database;
  /** Large payloads and outputs. */
  PAYLOADS: R2Bucket;
  RECORDER: DurableObjectNamespace;
  KEEPER: DurableObjectNamespace;
  /** Secret from which upstream idempotency keys are derived. Never change it while instances are open. */
  MILLRACE_KEY: string;
}

/** The binding that carries a name: `publish-commands` is bound as `PUBLISH_COMMANDS`. One rule instead of one setting per binding. */
export function bindingName(name: string): string {
  return name.replaceAll("-", "_").toUpperCase();
}

/** The producer side of a queue. Errors: `config_invalid` when `wrangler.jsonc` does not bind it. */
export function queueBinding(env: object, queue: string): Queue {
  return find(env, queue, "queue producer") as Queue;
}

/** The workflow's binding. Errors: `config_invalid` when `wrangler.jsonc` does not bind it. */
export function workflowBinding(env: object, workflow: string): Workflow {
  return find(env, workflow, "workflow") as Workflow;
}

function find(env: object, name: string, what: string): unknown {
  const binding = bindingName(name);
  const found = (env as Record<string, unknown>)[binding];
  if (found === undefined) {
    throw new MillraceError("config_invalid", `No ${what} is bound for "${name}". Add it to wrangler.jsonc with the binding ${binding}.`);
  }
  return found;
}
