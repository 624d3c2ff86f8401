import type { AsyncLocalStorage } from "node:async_hooks";
import type { Steps } from "../workflow/steps.ts";
import type { AnyWorkflow } from "../workflow/workflow.ts";

/** A workflow's code between its steps. `after` is the step whose result the code received last; null before the first one. */
export interface Code {
  readonly workflow: string;
  after: string | null;
}

/** Contains the code that executes. The value is undefined within a step and in the engine. */
export type Between = AsyncLocalStorage<Code | undefined>;

/** The workflow with functions that set `between` while their own code executes. */
export function betweenSteps(definition: AnyWorkflow, between: Between, code: Code): AnyWorkflow {
  const noted =
    (run: AnyWorkflow["run"]): AnyWorkflow["run"] =>
    (call) =>
      between.run(code, () => run({ ...call, step: leaving(between, call.step) }));
  const previous = Object.entries(definition.previous ?? {}).map(([version, run]) => [version, noted(run)]);
  return { ...definition, run: noted(definition.run), previous: Object.fromEntries(previous) };
}

/** Steps that reset `between` for each call. `map` executes code of the workflow, whose steps do the same. */
function leaving(between: Between, steps: Steps): Steps {
  return new Proxy(steps, {
    get: (target, name: keyof Steps) =>
      name === "map"
        ? (...[items, options, each]: Parameters<Steps["map"]>) =>
            target.map(items, options, (item, own) => each(item, leaving(between, own)))
        : (...given: never[]) => between.run(undefined, () => (target[name] as (...all: never[]) => unknown)(...given)),
  });
}
