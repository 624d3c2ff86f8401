import { AsyncLocalStorage } from "node:async_hooks";
import type { EngineEnv } from "../contract/bindings.ts";
import { asCodeOf } from "../contract/crash-points.ts";
import { inDevelopment } from "../contract/development.ts";
import { logLine } from "../contract/log-line.ts";

/** A pass through a workflow's code, as far as advice names it. */
interface Advised {
  readonly env: EngineEnv;
  readonly workflow: string;
  readonly instanceId: string;
}

/** Whose code runs between its steps; undefined within a step. Known in development only. */
const between = new AsyncLocalStorage<Advised | undefined>();
let watches = false;
const watching = new WeakSet<typeof fetch>();

/** What was said in this isolate. */
const given = new Set<string>();

/**
 * Says on one line of the log that a workflow's code is probably mistaken, though its run goes on. Deployed, once in an isolate, whatever
 * number of runs it is true of; in development once a run.
 */
export function advise({ env, workflow, instanceId }: Advised, step: string, said: string): void {
  const about = [inDevelopment(env) ? instanceId : workflow, step, said].join("\n");
  if (given.has(about) || given.size > MAX_GIVEN) return;
  given.add(about);
  logLine("warn", { log: "advice", workflow, instance_id: instanceId, step, said });
}

const MAX_GIVEN = 1000;

/** Runs a workflow's code; in development, a `fetch` between its steps is told. */
export function betweenSteps<T>(run: Advised, code: () => Promise<T>): Promise<T> {
  const own = () => asCodeOf({ instanceId: run.instanceId }, code);
  if (!inDevelopment(run.env)) return own();
  watchFetch();
  return between.run(run, own);
}

/** Runs what a step does: there a `fetch` is right. */
export function withinStep<T>(body: () => T): T {
  return watches ? between.run(undefined, body) : body();
}

/** Whoever has put a `fetch` of its own in place of this one since is watched as well. */
function watchFetch(): void {
  watches = true;
  const real = globalThis.fetch;
  if (watching.has(real)) return;
  globalThis.fetch = (...call: Parameters<typeof fetch>) => {
    const run = between.getStore();
    if (run) advise(run, "", "fetch outside a step: every replay repeats it. Move it into step.read or another step.");
    return real.apply(globalThis, call);
  };
  watching.add(globalThis.fetch);
}
