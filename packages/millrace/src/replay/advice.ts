import { AsyncLocalStorage } from "node:async_hooks";
import type { EngineEnv } from "../contract/bindings.ts";
import { asCodeOf } from "../contract/crash-points.ts";
import { inDevelopment } from "../contract/development.ts";
import { logLine } from "../contract/log-line.ts";

interface Advised {
  readonly env: EngineEnv;
  readonly workflow: string;
  readonly instanceId: string;
}

/** The run whose code is executing outside steps; undefined within a step. The value is set in development only. */
const between = new AsyncLocalStorage<Advised | undefined>();
let watches = false;
const watching = new WeakSet<typeof fetch>();

const given = new Set<string>();

/**
 * Logs that a workflow's code is probably wrong. The run continues. The advice is logged once per isolate, and in development once per run.
 */
export function advise({ env, workflow, instanceId }: Advised, step: string, said: string): void {
  const about = [inDevelopment(env) ? instanceId : workflow, step, said].join("\n");
  if (given.has(about) || given.size > MAX_GIVEN) return;
  given.add(about);
  logLine("warn", { log: "advice", workflow, instance_id: instanceId, step, said });
}

const MAX_GIVEN = 1000;

export function betweenSteps<T>(run: Advised, code: () => Promise<T>): Promise<T> {
  const own = () => asCodeOf({ instanceId: run.instanceId }, code);
  if (!inDevelopment(run.env)) return own();
  watchFetch();
  return between.run(run, own);
}

export function withinStep<T>(body: () => T): T {
  return watches ? between.run(undefined, body) : body();
}

/** Replaces `fetch` by a function that logs advice. If other code has replaced `fetch` since the last call, `fetch` is replaced again. */
function watchFetch(): void {
  watches = true;
  const real = globalThis.fetch;
  if (watching.has(real)) return;
  globalThis.fetch = (...call: Parameters<typeof fetch>) => {
    const run = between.getStore();
    if (run) advise(run, "", "fetch outside a step: every replay repeats it. Move the call into step.read or another step.");
    return real.apply(globalThis, call);
  };
  watching.add(globalThis.fetch);
}
