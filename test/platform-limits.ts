import type { WorkflowStep } from "cloudflare:workers";
import { env } from "cloudflare:workers";
import { AsyncLocalStorage } from "node:async_hooks";
import { isSlow } from "./until.ts";

/** Undefined outside the engine's tests, where the platform has no limits. */
declare const MILLRACE_SLOW_PLATFORM: boolean | undefined;
const isLimited = typeof MILLRACE_SLOW_PLATFORM === "boolean";

// The local runtime answers within a millisecond and has no limits per invocation. This file adds the limits of the deployed platform to
// D1, and with MILLRACE_SLOW_PLATFORM=true also the times of a distant database and of distant objects.

/** Queries per invocation, each statement of a batch counted (developers.cloudflare.com/d1/platform/limits). */
const MOST_QUERIES = 1000;
/** Subrequests per instance, all its calls of D1, R2, queues, objects and services (developers.cloudflare.com/workflows/reference/limits). */
const MOST_SUBREQUESTS = 10_000;
/** Milliseconds that each D1 call and each call of an object take more. */
const SLOW = isSlow ? { database: 100, object: 20 } : undefined;

interface Invocation {
  readonly limits: Readonly<Partial<Record<Counted, number>>>;
  queries: number;
  subrequests: number;
}
type Counted = "queries" | "subrequests";

interface Known {
  readonly current: AsyncLocalStorage<Invocation>;
  /** The highest counts of all invocations by their kind. */
  readonly highest: Map<string, Record<Counted, number>>;
}
// All test files of a runtime share its classes, and so the counts.
const shared = globalThis as { millraceLimits?: Known };
const isFirst = shared.millraceLimits === undefined;
shared.millraceLimits ??= { current: new AsyncLocalStorage(), highest: new Map() };
const { current } = shared.millraceLimits;
export const { highest } = shared.millraceLimits;

/** Executes an invocation of the Worker with the limits of its kind. */
export async function invoked<T>(kind: "fetch" | "queue" | "alarm" | "instance", code: () => Promise<T>): Promise<T> {
  const limits = kind === "instance" ? { subrequests: MOST_SUBREQUESTS } : { queries: MOST_QUERIES };
  const own: Invocation = { limits, queries: 0, subrequests: 0 };
  try {
    return await current.run(own, code);
  } finally {
    const { queries = 0, subrequests = 0 } = highest.get(kind) ?? {};
    highest.set(kind, { queries: Math.max(queries, own.queries), subrequests: Math.max(subrequests, own.subrequests) });
  }
}

/** The steps of an instance. The body of a step belongs to the invocation in which the workflow's code called the step. */
export function boundSteps(steps: WorkflowStep): WorkflowStep {
  return new Proxy(steps, {
    get: (target, name) => {
      const member = Reflect.get(target, name) as Call;
      const bound = (one: unknown) => (typeof one === "function" ? AsyncLocalStorage.bind(one as Call) : one);
      return (...given: unknown[]) => Reflect.apply(member, target, given.map(bound));
    },
  });
}

function count(queries: number): void {
  const own = current.getStore();
  if (own === undefined) return;
  own.queries += queries;
  own.subrequests++;
  for (const [what, most] of Object.entries(own.limits) as [Counted, number][]) {
    if (own[what] > most) throw new Error(`Too many API requests by single Worker invocation: more than ${most} ${what}.`);
  }
}

type Call = (...given: unknown[]) => unknown;

/** Replaces methods of a class of the runtime. Each call is counted first, and delayed if the platform is slow. */
function limited(prototype: object, methods: readonly string[], slowMs: number | undefined, queriesOf: (given: unknown[]) => number): void {
  for (const method of methods) {
    const original = Reflect.get(prototype, method) as Call | undefined;
    if (original === undefined) throw new Error(`The runtime has no method ${method} any more: change test/platform-limits.ts.`);
    Reflect.set(prototype, method, async function (this: unknown, ...given: unknown[]) {
      count(queriesOf(given));
      if (slowMs !== undefined) await scheduler.wait(slowMs);
      return original.apply(this, given);
    });
  }
}

if (isFirst && isLimited) {
  const { DB, RECORDER } = env as unknown as { DB: D1Database; RECORDER: DurableObjectNamespace };
  limited(Object.getPrototypeOf(DB), ["batch"], SLOW?.database, ([statements]) => (statements as unknown[]).length);
  limited(Object.getPrototypeOf(DB.prepare("SELECT 1")), ["first", "run", "all", "raw"], SLOW?.database, () => 1);
  const objects = Object.getPrototypeOf(RECORDER) as { get: Call };
  const get = objects.get;
  objects.get = function (this: unknown, ...given) {
    const stub = get.apply(this, given) as object;
    // Tests call objects outside an invocation, and need the objects' real stubs.
    if (current.getStore() === undefined) return stub;
    return new Proxy(stub, {
      get(_, name) {
        const member = Reflect.get(stub, name, stub) as unknown;
        if (typeof member !== "function") return member;
        return (...passed: unknown[]) => {
          count(0);
          const call = () => Reflect.apply(member as Call, stub, passed);
          return SLOW === undefined ? call() : scheduler.wait(SLOW.object).then(call);
        };
      },
    });
  };
}
