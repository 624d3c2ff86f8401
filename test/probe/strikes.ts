import type { WorkflowEvent, WorkflowStep } from "cloudflare:workers";

type Call = "do" | "sleep" | "waitForEvent";

/**
 * A planned failure: the platform rejects one call of a run with its own error, before the step begins, during an attempt, or after the
 * step's end.
 */
export interface Strike {
  readonly call: Call;
  /** The step's name on the platform. Default: any step of this call. */
  readonly step?: string;
  readonly when: "before" | "under way" | "behind";
  readonly says: Error;
  /**
   * `dies`: the engine process dies, and a new one replays the run from its recorded steps. `lives`: the engine marks the instance as
   * errored.
   */
  readonly engine: "dies" | "lives";
  /** The number of calls that are rejected. Default: 1. */
  times?: number;
}

/** The planned strikes of each run, by the subject of its command. A strike is removed when it is made. */
export const strikes = new Map<string, Strike[]>();

/** The strikes that were made, by the subject of the run's command. */
export const struck = new Map<string, Strike[]>();

/** The local engine's error at its own end, after which the instance keeps its status. */
const DIES = "Aborting engine: Grace period complete";

type Run = (event: Readonly<WorkflowEvent<never>>, steps: WorkflowStep) => Promise<unknown>;

/** A replay that can be reset: its subject, its unfinished platform calls, and the error that rejects them. */
interface Resettable {
  readonly subject: string;
  readonly waitsFor: Set<Call>;
  /** Set when the replay is reset. */
  reset?: { readonly engine: Strike["engine"]; readonly says: Error };
}

const resettable = new Set<Resettable>();

/** Runs with a subject that begins with one of these prefixes can be reset at any time. */
export const resetPrefixes = new Set<string>();

/**
 * Resets the engines of all runs with a subject of this prefix, as a deployment does: each unfinished and later call of a run is
 * rejected. Returns the number of runs, and the number of replays that waited for each kind of call.
 */
export function resetEngines(prefix: string, says: () => Error, engineOf: (subject: string) => Strike["engine"]) {
  const count = { runs: 0, do: 0, sleep: 0, waitForEvent: 0 };
  const runs = new Set<string>();
  for (const one of resettable) {
    if (!one.subject.startsWith(prefix) || one.reset) continue;
    one.reset = { engine: engineOf(one.subject), says: says() };
    runs.add(one.subject);
    for (const call of one.waitsFor) count[call]++;
  }
  return { ...count, runs: runs.size };
}

/** The subjects with this prefix that have a running replay without a reset. */
export function replaysUnderWay(prefix: string): Set<string> {
  return new Set([...resettable].filter(({ subject, reset }) => subject.startsWith(prefix) && !reset).map(({ subject }) => subject));
}

/** Executes a run and rejects its planned platform calls. A dead engine does not receive the result of its replay. */
export async function runStruck(run: Run, event: Readonly<WorkflowEvent<never>>, steps: WorkflowStep): Promise<unknown> {
  const { subject } = event.payload as { subject: string };
  const before = struck.get(subject)?.length ?? 0;
  const one: Resettable = { subject, waitsFor: new Set() };
  const canReset = [...resetPrefixes].some((prefix) => subject.startsWith(prefix));
  if (canReset) resettable.add(one);
  try {
    const given = canReset ? resettableSteps(one, steps) : steps;
    return await run(event, strikes.has(subject) ? struckSteps(subject, given) : given);
  } catch (error) {
    const dies =
      one.reset?.engine === "dies" ||
      struck
        .get(subject)
        ?.slice(before)
        .some(({ engine }) => engine === "dies");
    throw dies ? new Error(DIES) : error;
  } finally {
    resettable.delete(one);
  }
}

function resettableSteps(one: Resettable, steps: WorkflowStep): WorkflowStep {
  const call =
    (kind: Call) =>
    async (...args: unknown[]) => {
      one.waitsFor.add(kind);
      let isOver = false;
      // The flag is polled, because a promise of one request must not be awaited in another.
      const reset = async (): Promise<void> => {
        while (!isOver && !one.reset) await scheduler.wait(POLL_MS);
        if (one.reset) throw one.reset.says;
      };
      try {
        const made = (steps[kind] as unknown as (...given: unknown[]) => Promise<unknown>)(...args);
        made.catch(() => undefined);
        return await Promise.race([made, reset()]);
      } finally {
        isOver = true;
        one.waitsFor.delete(kind);
      }
    };
  return { do: call("do"), sleep: call("sleep"), waitForEvent: call("waitForEvent") } as unknown as WorkflowStep;
}

const POLL_MS = 50;

function struckSteps(subject: string, steps: WorkflowStep): WorkflowStep {
  const due = (call: Call, step: string): Strike | undefined => {
    const plan = strikes.get(subject) ?? [];
    const found = plan.find((one) => one.call === call && (one.step ?? step) === step);
    if (!found) return undefined;
    found.times = (found.times ?? 1) - 1;
    if (found.times === 0) plan.splice(plan.indexOf(found), 1);
    struck.set(subject, [...(struck.get(subject) ?? []), found]);
    return found;
  };
  const reject = async ({ when, says }: Strike, go: (begun: () => void) => Promise<unknown>): Promise<never> => {
    const begun = Promise.withResolvers<void>();
    if (when === "behind") await go(begun.resolve).catch(() => undefined);
    if (when === "under way") {
      go(begun.resolve).catch(() => undefined);
      await begun.promise;
    }
    throw says;
  };
  return {
    async do(name: string, config: object, body: (call: object) => Promise<unknown>) {
      const go = (begun: () => void) => {
        const made = (call: object) => {
          begun();
          return body(call);
        };
        return (steps.do as unknown as (...args: unknown[]) => Promise<unknown>)(name, config, made);
      };
      const strike = due("do", name);
      return strike ? reject(strike, go) : go(() => undefined);
    },
    async sleep(name: string, ms: number) {
      const strike = due("sleep", name);
      const go = (begun: () => void) => {
        begun();
        return steps.sleep(name, ms);
      };
      return strike ? reject(strike, go) : steps.sleep(name, ms);
    },
    async waitForEvent(name: string, options: { type: string; timeout?: number }) {
      const strike = due("waitForEvent", name);
      const go = (begun: () => void) => {
        begun();
        return steps.waitForEvent(name, options);
      };
      return strike ? reject(strike, go) : steps.waitForEvent(name, options);
    },
  } as unknown as WorkflowStep;
}
