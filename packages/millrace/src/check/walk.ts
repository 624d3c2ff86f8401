import type { WorkflowStep } from "cloudflare:workers";
import type { EngineEnv } from "../contract/bindings.ts";
import { codeOf, messageOf } from "../contract/errors.ts";
import type { Params } from "../contract/params.ts";
import { CHILD_PREFIX, codeLabelOf, labelOf, ownStep } from "../contract/step-names.ts";
import type { RecordedEntry, RunRecord } from "../inspect/record.ts";
import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import { NAMING_MS } from "../replay/step-order.ts";
import { SKIPPED } from "../store/inbox/outcome.ts";
import { replayOnce } from "../workflow/entrypoint.ts";
import type { StepBehaviour } from "../workflow/step-behaviour.ts";
import type { AnyWorkflow, Deployment } from "../workflow/workflow.ts";
import { type Between, betweenSteps, type Code } from "./between.ts";

export type { AnyWorkflow, Deployment, RunRecord };

/** A difference between the code and the record of a run. `breaks` is false if the record lacks a value, so that the result is unknown. */
export interface Finding {
  readonly code: string;
  readonly step: string;
  readonly says: string;
  readonly breaks: boolean;
}

/** The result of a walk: the differences, and the step at which the record ends. */
export interface Walked {
  readonly id: string;
  readonly workflow: string;
  readonly version: number;
  readonly findings: readonly Finding[];
  /** The first step without a record; null if the code has ended. */
  readonly until: string | null;
}

/** The declaration of a step in the code. */
interface Called {
  readonly class: string;
  readonly hasUndo: boolean;
  readonly event?: { readonly type: string; readonly subject: string };
}

/**
 * Replays a recorded run with the given code. The replay is the engine's own: each step gets its recorded outcome, and no step without one
 * begins. The walk ends when the code waits for such steps only. `between` contains the workflow's code while it executes.
 */
export async function walkRecord(
  definition: AnyWorkflow | undefined,
  deployment: Deployment,
  record: RunRecord,
  vars: Readonly<Record<string, unknown>> = {},
  between?: Between,
): Promise<Walked> {
  const { id, workflow } = record;
  // An instance that has not started begins with the new version.
  const version = (record.status === "accepted" && definition?.version) || record.version;
  const findings: Finding[] = [];
  const find = (code: string, step: string, says: string, breaks = true) => void findings.push({ code, step, says, breaks });
  const walked = (until: string | null) => ({ id, workflow, version, findings, until });
  if (definition === undefined) {
    find("workflow_gone", "", `The code has no workflow "${workflow}".`);
    return walked(null);
  }
  if (version !== (definition.version ?? 1) && definition.previous?.[version] === undefined) {
    find("version_gone", "", `The code has no version ${version} of "${workflow}": keep its function in \`previous\`.`);
    return walked(null);
  }
  if (record.is_redacted) {
    find("redacted", "", "Sensitive values are hidden: pass --reveal, with a token that has the scope `reveal`.", false);
    return walked(null);
  }
  const called = new Map<string, Called>();
  const walk = new Recorded(record, vars, (step, says) => find("unknown", step, says, false));
  let replay: Replay | undefined;
  const watch = (behaviour: StepBehaviour, of: Replay) => {
    replay = of;
    return watched(behaviour, called, code);
  };
  const code: Code = { workflow, after: null };
  const watchedCode = between ? betweenSteps(definition, between, code) : definition;
  const event = { payload: record.envelope as Params, instanceId: id, timestamp: new Date(), workflowName: workflow };
  const given = { env: walk.env, event: { ...event, payload: { ...event.payload, version } }, steps: walk.steps, deployment, watch };
  const replaying = replayOnce(watchedCode, given).then(
    () => ({}),
    (error: unknown) => ({ error }),
  );
  const end = await Promise.race([replaying, walk.untilQuiet(() => replay?.stepOrder.missed() !== undefined)]);
  const { step = "", ...failure } = walk.failure ?? {};
  if (end && "error" in end) find(failure.code ?? codeOf(end.error) ?? "failed", step, failure.message ?? messageOf(end.error));
  const missed = replay?.stepOrder.missed();
  const isAsFar = end !== undefined || (record.run === 1 && replay !== undefined && isAtRest(record, replay.stepOrder.unheard));
  const isGone = (label: string) => (isAsFar ? replay?.stepOrder.hasBegun(label) === false : label === missed);
  for (const one of differences(record, called, isGone)) find(one.code, one.step, one.says);
  if (end === undefined && replay?.stepOrder.unheard.length === 0)
    find("unknown", "", "The code waits for something other than a step, such as a fetch, so its further steps are unknown.", false);
  // After a difference or an unknown value, the code has not come as far as the recorded run.
  if (findings.length === 0)
    for (const one of [...openSteps(record, called), ...openAttempts(record, called)]) find(one.code, one.step, one.says);
  return walked(end === undefined ? walk.beyond : null);
}

/**
 * True if the recorded run waits in each of these steps. Then the replay has received all results of a first run. A later run can wait
 * again in a step before its recorded effects.
 */
function isAtRest({ steps }: RunRecord, labels: readonly string[]): boolean {
  const waiting = steps.filter(({ state }) => state === "sleeping" || state === "waiting").map(codeLabelOf);
  return labels.length > 0 && labels.every((label) => waiting.includes(label));
}

/** The sleeps and questions that the run waits for and that the code has not called. */
function openSteps({ steps }: RunRecord, called: ReadonlyMap<string, Called>): Omit<Finding, "breaks">[] {
  return steps.flatMap(({ type, name, state }) => {
    const own = ownStep({ type, name });
    const kind = state === "sleeping" ? "sleep" : state === "waiting" && own?.part === "answer" ? "approval" : undefined;
    const step = own?.about ?? name;
    const code = called.get(step);
    if (kind === undefined || code?.class === kind) return [];
    const now = code ? `has a step of the class ${code.class} with this name` : "does not call it";
    return [{ code: code ? "kind_changed" : "step_gone", step, says: `The run waits in this ${kind}, and the code ${now}.` }];
  });
}

/** The effects and commits with an unrecorded attempt that the code has not called. */
function openAttempts({ steps }: RunRecord, called: ReadonlyMap<string, Called>): Omit<Finding, "breaks">[] {
  const says = "The run attempts this step, and the code no longer calls it.";
  const open = steps.filter(({ type, state, reads }) => type === "do" && !reads && (state === "running" || state === "retrying"));
  const labels = new Set(open.map(codeLabelOf));
  // Before a child has started, the code has called only its start.
  const gone = [...labels].filter((label) => ["read", undefined].includes((called.get(label) ?? called.get(CHILD_PREFIX + label))?.class));
  return gone.map((step) => ({ code: "step_gone", step, says }));
}

/** The differences between recorded steps and the steps that the code has called. */
function differences(
  { entries, waits, steps }: RunRecord,
  called: ReadonlyMap<string, Called>,
  isGone: (label: string) => boolean,
): Omit<Finding, "breaks">[] {
  const newest = new Map(entries.filter(({ position }) => position >= 0).map((entry) => [labelOf(entry.step, entry.item), entry]));
  return [
    ...[...newest].flatMap(([step, entry]) => differencesOf(step, entry, called.get(step), isGone(step))),
    ...waits.flatMap(({ name: step, type, subject }) => {
      const code = called.get(step);
      // After a retry, a wait may lie behind steps that the platform executes again.
      if (code === undefined && !steps.some(({ name }) => name === step)) return [];
      if (code === undefined)
        return [{ code: "wait_gone", step, says: `The run waits for "${type}" at this step, and the code does not call it.` }];
      const { event } = code;
      if (code.class === "child") return [];
      if (event?.type === type && event.subject === subject) return [];
      const now = event ? `"${event.type}" about "${event.subject}"` : "no event";
      return [{ code: "event_changed", step, says: `The run waits for "${type}" about "${subject}", the code for ${now}.` }];
    }),
  ];
}

function differencesOf(step: string, entry: RecordedEntry, code: Called | undefined, isGone: boolean): Omit<Finding, "breaks">[] {
  const { class: recorded, state, undoable, token } = entry;
  if (state === "failed" || state === "superseded") return [];
  if (code === undefined)
    return !isGone
      ? []
      : [{ code: "step_gone", step, says: `The run has recorded this ${recorded} step, and the code no longer calls it.` }];
  const isKind = (one: string) => (OTHER_KINDS.has(one) ? one : "effect");
  // The record of each skipped step, also of a read, has the class of an effect.
  if (isKind(code.class) !== isKind(recorded) && token !== SKIPPED)
    return [{ code: "kind_changed", step, says: `The run has recorded a ${recorded}, and the code has a ${code.class}.` }];
  const isOpen = state !== "done";
  return [
    ...(isOpen && code.class !== recorded
      ? [{ code: "class_changed", step, says: `The class changed from ${recorded} to ${code.class} beside a claim: it becomes in_doubt.` }]
      : []),
    ...(undoable === 1 && !code.hasUndo
      ? [
          {
            code: "undo_gone",
            step,
            says: "The effect had an undo when it ran, and the code has none: an undo of the instance would stop.",
          },
        ]
      : []),
  ];
}

/** The kinds of steps other than effects. */
const OTHER_KINDS: ReadonlySet<string> = new Set(["commit", "read", "sleep", "wait", "child", "approval"]);

function watched(behaviour: StepBehaviour, called: Map<string, Called>, code: Code): StepBehaviour {
  const note = <T>({ label, name }: StepCall, one: Called, take: () => Promise<T>): Promise<T> => {
    called.set(label, one);
    const taken = take();
    const heard = () => {
      code.after = name;
    };
    taken.then(heard, heard);
    return taken;
  };
  return {
    read: (step, policy, read) => note(step, { class: "read", hasUndo: false }, () => behaviour.read(step, policy, read)),
    effect: (step, request) =>
      note(step, { class: request.definition.effect, hasUndo: step.undoable === true }, () => behaviour.effect(step, request)),
    commit: (step, request) => note(step, { class: "commit", hasUndo: step.undoable === true }, () => behaviour.commit(step, request)),
    sleep: (step, duration) => note(step, { class: "sleep", hasUndo: false }, () => behaviour.sleep(step, duration)),
    waitFor: (step, request, open) => {
      const event = { type: request.event.type, subject: request.subject };
      return note(step, { class: "wait", hasUndo: false, event }, () => behaviour.waitFor(step, request, open));
    },
    start: (step, request) => note(step, { class: "commit", hasUndo: true }, () => behaviour.start(step, request)),
    child: (step, record, request) => note(step, { class: "child", hasUndo: false }, () => behaviour.child(step, record, request)),
    approve: (step, request) => note(step, { class: "approval", hasUndo: false }, () => behaviour.approve(step, request)),
  };
}

const QUIET_MS = 150;

/** A platform and a recorder that know only the record of a run. A call beyond the record never returns. */
class Recorded {
  readonly #record: RunRecord;
  readonly #vars: Readonly<Record<string, unknown>>;
  readonly #unknown: (step: string, says: string) => void;
  #lastCall = Date.now();
  #beyond: string | null = null;
  failure: Partial<Record<"code" | "step" | "message", string>> | undefined;

  constructor(record: RunRecord, vars: Readonly<Record<string, unknown>>, unknown: (step: string, says: string) => void) {
    this.#record = record;
    this.#vars = vars;
    this.#unknown = unknown;
  }

  get beyond(): string | null {
    return this.#beyond;
  }

  /** Waits until the code makes no call any more. While a recorded step is missing, the code gets the engine's time to call the step. */
  async untilQuiet(misses: () => boolean): Promise<undefined> {
    const quietMs = () => (this.#beyond === null || misses() ? NAMING_MS + QUIET_MS : QUIET_MS);
    while (Date.now() - this.#lastCall < quietMs()) await scheduler.wait(20);
    return undefined;
  }

  #end(label: string): Promise<never> {
    this.#lastCall = Date.now();
    this.#beyond ??= label;
    return new Promise(() => undefined);
  }

  get steps(): WorkflowStep {
    const stored = new Map(this.#record.steps.map((step) => [step.name, step]));
    const find = (name: string) => {
      this.#lastCall = Date.now();
      return stored.get(name);
    };
    return {
      do: async (name: string, _config: object, body: (call: object) => Promise<unknown>) => {
        const step = find(name);
        const isRecorded = this.#record.entries.some((one) => labelOf(one.step, one.item) === name && one.state === "done");
        if (step?.state === "complete" && !isLeftOut(step.output)) return step.output;
        if (step?.state === "errored") throw new Error(step.error ?? "The step failed.");
        // The attempt finds the outcome in the inbox, and does nothing else.
        if (isRecorded) return body({ attempt: 2 });
        if (step && isLeftOut(step.output)) this.#unknown(name, "The output of this step is too large to be read.");
        return this.#end(name);
      },
      sleep: (name: string) => (find(name)?.state === "complete" ? Promise.resolve() : this.#end(name)),
      waitForEvent: async (name: string, { type }: { type: string }) => {
        const step = find(name);
        if (step?.state === "timed_out") throw new Error(`Execution timed out after waiting for ${name}`);
        if (step?.state !== "complete") return this.#end(name);
        return { payload: this.#record.events[type] ?? {}, timestamp: new Date(), type };
      },
    } as unknown as WorkflowStep;
  }

  get env(): EngineEnv {
    const { entries, left, lost, run } = this.#record;
    const standing = { run, status: "running", undo: null };
    const known: Record<string, (...args: never[]) => unknown> = {
      begin: () => false,
      history: () => ({ entries: entries.map((entry) => ({ ...entry, small: null })), left, lost, readAt: 0 }),
      output: ({ step, item, generation }: { step: string; item: string; generation: number }) => {
        const entry = entries.find((one) => one.step === step && one.item === item && one.generation === generation);
        if (!entry?.omitted) return entry?.output ?? null;
        this.#unknown(labelOf(step, item), "The output of this step is too large to be read.");
        return this.#end(labelOf(step, item));
      },
      standing: () => standing,
      keepCaught: () => standing,
      report: () => undefined,
      finish: ({ error }: { error: string | null }) => {
        if (error !== null) this.failure = JSON.parse(error);
        return true;
      },
      claim: ({ key }: { key: { step: string; item: string } }) => this.#end(labelOf(key.step, key.item)),
      record: ({ key }: { key: { step: string; item: string } }) => this.#end(labelOf(key.step, key.item)),
    };
    const never = () => {
      this.#lastCall = Date.now();
      return new Promise(() => undefined);
    };
    const recorder = new Proxy(
      {},
      {
        get:
          (_, name) =>
          async (...args: never[]) =>
            (known[String(name)] ?? never)(...args),
      },
    );
    const payload = async () => {
      this.#unknown("", "A large payload or output is stored by reference, and is not read.");
      return never();
    };
    // Each call of a binding, also a chain such as `env.DB.prepare(text).first()`, never returns.
    const bound: unknown = new Proxy(() => bound, { get: (_, name) => (name === "then" ? () => undefined : bound) });
    const own = {
      ...this.#vars,
      RECORDER: { idFromName: (name: string) => name, get: () => recorder },
      PAYLOADS: { get: payload, put: payload },
    };
    return new Proxy(own, {
      get: (bindings, name) =>
        bindings[name as keyof typeof bindings] ?? (/^[A-Z_]+$/.test(String(name)) && name in OBJECTS ? bound : undefined),
    }) as unknown as EngineEnv;
  }
}

/** Bindings that the walk may ask for and that do not answer. */
const OBJECTS = { DB: true, KEEPER: true };

function isLeftOut(output: unknown): boolean {
  return typeof output === "object" && output !== null && "omitted" in output;
}
