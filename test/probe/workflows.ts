import {
  type Commit,
  defineStep,
  defineWorkflow,
  type EffectCall,
  errors,
  MillraceError,
  on,
  retryAfter,
  type Steps,
  send,
  sql,
  start,
  tell,
  upstreamRefused,
} from "millrace";
import { ProbeDone, ProbeFollow, ProbeRequested, ProbeSignal, type ProbeStep } from "./messages.ts";
import { mode } from "./mode.ts";

interface Act {
  subject: string;
  output?: number | "cycle" | undefined;
}

/** The number of replays of each instance's code. A test detects a restart by the next replay, because a status may be from before it. */
export const passes = new Map<string, number>();

/** The names of runs in which the script's step `throw` throws an error. */
export const throwing = new Set<string>();

/** Executes the steps in its payload: the test is the author of the script. */
export const probe = defineWorkflow({
  name: "probe",
  on: ProbeRequested,
  get steps() {
    return mode.steps;
  },
  async run({ payload, step, instanceId }) {
    passes.set(instanceId, (passes.get(instanceId) ?? 0) + 1);
    const outputs: unknown[] = [];
    for (const one of payload.steps) {
      const attempt = (each: ProbeStep) =>
        take(step, payload.name, each).catch((error) => {
          if (!each.swallow) throw error;
          return "swallowed";
        });
      outputs.push(Array.isArray(one) ? await Promise.all(one.map(attempt)) : await attempt(one));
    }
    return { outputs };
  },
});

/** A short back-off, because tests wait for the follower: with the default delays five refusals would take minutes. */
const SOON = { retries: { limit: 8, delay: "1 second", backoff: "constant" } } as const;

/** A run for every `probe.done`; it writes one row per event. */
export const countDone = defineWorkflow({
  name: "count-done",
  on: ProbeDone,
  get steps() {
    return mode.steps;
  },
  async run({ payload, step, instanceId }) {
    const row = sql`INSERT INTO probe_rows (id, kind, name) VALUES (${instanceId}, 'event', ${payload.name})`;
    await step.commit("count", () => ({ statements: [row] }), SOON);
  },
});

/** Performs the command that a route of `probe.done` sends. */
export const followProbe = defineWorkflow({
  name: "follow-probe",
  on: ProbeFollow,
  get steps() {
    return mode.steps;
  },
  deadline: "2 hours",
  async run({ payload, step, instanceId }) {
    const row = sql`INSERT INTO probe_rows (id, kind, name) VALUES (${instanceId}, 'command', ${payload.name})`;
    await step.commit("follow", () => ({ statements: [row] }), SOON);
  },
});

/** The routes of a recorded step's event: start a run, send a command, and notify an object. */
export const whenDone = on(
  ProbeDone,
  start(countDone),
  send(ProbeFollow, ({ name, step }) => ({ name, step })),
  tell("LISTENER", ({ name }) => name),
);

async function take(step: Steps, run: string, one: ProbeStep): Promise<unknown> {
  const name = stepName(one.name) as never;
  const options = { ...(one.key && { key: one.key }), retries: { limit: one.retries, delay: 10, backoff: "constant" } as const };
  const subject = one.subject ?? `${run}/${one.name}${one.key ? `/${one.key}` : ""}`;
  const taken = (): Commit<never> => ({
    statements: [sql`INSERT INTO probe_rows (id, kind, name) VALUES (${crypto.randomUUID()}, 'undo', ${subject})`],
    ...(one.emit && { emit: [ProbeDone.from({ name: `${run}/undo`, step: subject })] }),
  });
  const writes = (): Commit<never> => (one.emit ? { emit: [ProbeDone.from({ name: run, step: subject })] } : {});
  switch (one.do) {
    case "read":
      return step.read(name, async () => produce(one.output) ?? "read", options);
    case "commit":
      return step.commit(
        name,
        () => ({
          statements: [sql`INSERT INTO probe_rows (id, kind, name) VALUES (${crypto.randomUUID()}, 'commit', ${subject})`],
          output: "committed",
          ...writes(),
        }),
        { ...options, ...(one.undo && { undo: taken }) },
      );
    case "wait":
      return step.waitFor(name, ProbeSignal, { subject, timeout: "1 hour", ...(one.key && { key: one.key }) });
    case "throw":
      if (throwing.has(run)) throw new Error("A setting is missing.");
      return "fine";
    case "sleep":
      return step.sleep(name, one.timeoutMs);
    case "approve":
      return step.approve(name, {
        question: `May ${subject} happen?`,
        details: { subject },
        timeout: one.timeoutMs,
        ...(one.otherwise && { otherwise: one.otherwise }),
        ...(one.key && { key: one.key }),
      });
    case "wait-unrouted":
      return step.waitFor(name, ProbeDone, { subject, timeout: "1 hour" });
    default: {
      const policy = { retries: options.retries, timeout: one.timeoutMs };
      const undo = one.undo && one.undo !== "rows" ? { undo: { ...undoing(effects[one.undo]), ...policy } } : {};
      const output = await step.effect(
        name,
        { ...effects[one.do], ...policy, ...undo },
        { subject, output: one.output },
        { ...(one.key && { key: one.key }), record: writes, ...(one.undo && { undo: taken }) },
      );
      return typeof one.output === "number" ? String(output).length : output;
    }
  }
}

/** Permits a random step name, a mistake that the engine must detect. */
function stepName(name: string): string {
  return name.replace("$RANDOM", () => Math.random().toString(36).slice(2));
}

/** Steps of each effect class that send requests to the test's upstream service. */
export const effects = {
  keyed: defineStep({ effect: "keyed", run: (call: EffectCall<Act>) => act("POST", "keyed", call) }),
  natural: defineStep({ effect: "natural", run: (call: EffectCall<Act>) => act("PUT", "natural", call) }),
  once: defineStep({ effect: "once", run: (call: EffectCall<Act>) => act("POST", "plain", call) }),
  lookup: defineStep({
    effect: "lookup",
    run: (call: EffectCall<Act>) => act("POST", "plain", call),
    async lookup({ input, env, signal }: EffectCall<Act>) {
      const response = await fetch(`${upstream(env)}/plain/${encodeURIComponent(input.subject)}`, { signal });
      if (response.status === 404) return undefined;
      if (!response.ok) throw new MillraceError("unavailable", `The upstream answered ${response.status}.`);
      return ((await response.json()) as { id: string }).id;
    },
  }),
};

type StepOf<Input> = ReturnType<typeof defineStep<Input, unknown>>;
interface Undone {
  input: Act;
  output: unknown;
}

/** The undo handler for a step of each class. Its subject contains the subject of the undone effect and the upstream's id. */
function undoing(definition: StepOf<Act>): StepOf<Undone> {
  const about = ({ input: { input, output }, ...call }: EffectCall<Undone>) => ({
    ...call,
    input: { subject: `${input.subject}/undo ${String(output)}` },
  });
  const run = (call: EffectCall<Undone>) => definition.run(about(call));
  if (definition.effect !== "lookup") return defineStep({ effect: definition.effect, run });
  return defineStep({ effect: "lookup", run, lookup: (call) => definition.lookup(about(call)) });
}

async function act(method: string, kind: string, { input, key, signal, env }: EffectCall<Act>): Promise<unknown> {
  const response = await fetch(`${upstream(env)}/${kind}/${encodeURIComponent(input.subject)}`, {
    method,
    headers: { "idempotency-key": key },
    body: "{}",
    signal,
  });
  const waitSeconds = Number(response.headers.get("retry-after") ?? "0");
  const later = { 409: errors.inProgress, 429: retryAfter }[response.status];
  if (later) throw later(waitSeconds * 1000 || 20, `The upstream answered ${response.status}.`, response.status);
  if (response.status < 500 && !response.ok) throw upstreamRefused(`The upstream answered ${response.status}.`, response.status);
  if (!response.ok)
    throw new MillraceError("unavailable", `The upstream answered ${response.status}.`, { upstreamStatus: response.status });
  const { id } = (await response.json()) as { id: string };
  return produce(input.output) ?? id;
}

function produce(output: Act["output"]): unknown {
  if (typeof output === "number") return "x".repeat(output);
  if (output !== "cycle") return undefined;
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;
  return cycle;
}

function upstream(env: Cloudflare.Env): string {
  return (env as { UPSTREAM_URL?: string }).UPSTREAM_URL ?? "";
}
