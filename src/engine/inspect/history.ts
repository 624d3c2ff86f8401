import { type EngineEnv, workflowBinding } from "../contract/bindings.ts";
import { platformId } from "../contract/ids.ts";
import { beginning } from "../contract/text.ts";
import { awaitedSteps } from "../signals/wait.ts";
import type { Instance } from "./instances.ts";

/** One try of a step. Its number starts at 1 again when the instance is restarted. */
interface AttemptRecord {
  attempt: number;
  startedAt: number;
  endedAt: number | null;
  error: { name: string; message: string } | null;
  /** What the platform waits before the next attempt. */
  retryDelayMs: number | null;
}

/** One step as the platform remembers it. */
export interface StepRecord {
  type: "do" | "sleep" | "waitForEvent";
  name: string;
  /** Tells calls of one name apart, in the order they were made; 1-based. */
  count: number;
  state: "running" | "retrying" | "sleeping" | "waiting" | "complete" | "errored" | "timed_out";
  startedAt: number;
  endedAt: number | null;
  attempts: AttemptRecord[];
  /** For a sleep: how long. */
  durationMs: number | null;
  /** For a wait: for which event, as the platform knows it. */
  eventType: string | null;
}

/** A step in the words of its code: a wait has its step's name, its event's own type and subject, or the question that it asks. */
export interface NamedStep extends StepRecord {
  subject: string | null;
  approvalId: string | null;
}

export interface History {
  steps: StepRecord[];
  /** True when there was more than is told here. */
  truncated: boolean;
}

/** The platform streams what happened and then what happens. History has ended when nothing came for this long. */
const QUIET_MS = 50;
const FIRST_EVENT_MS = 1000;
const MAX_EVENTS = 500;
const MAX_MESSAGE_CHARACTERS = 1000;

/** `step_completed` carries a step's output and `workflow_started` the message: neither belongs here, so they are not even read. */
const WANTED = [
  "step_started",
  "step_errored",
  "attempt_started",
  "attempt_completed",
  "attempt_errored",
  "sleep_started",
  "sleep_completed",
  "wait_started",
  "wait_completed",
  "wait_timed_out",
] as const satisfies WorkflowInstanceEventType[];

type StepEvent = Extract<WorkflowInstanceEvent, { type: (typeof WANTED)[number] }>;

type Remembered = Pick<Instance, "id" | "workflow"> & Partial<Pick<Instance, "undo">>;

/**
 * The instance's steps as the platform remembers them, oldest first; behind them those of its undo. An instance that it has forgotten, or
 * whose workflow is not bound any more, has none.
 */
export async function historyOf(env: EngineEnv, { id, workflow, undo = null }: Remembered): Promise<History> {
  const names = undo === null ? [id] : [id, platformId(id, undo)];
  const parts = await Promise.all(names.map((name) => partOf(env, workflow, name)));
  return { steps: parts.flatMap(({ steps }) => steps), truncated: parts.some(({ truncated }) => truncated) };
}

/** The same in the words of the code. What is pruned, and waits of the engine's own, are called as the platform calls them. */
export async function stepsOf(env: EngineEnv, instance: Remembered): Promise<{ steps: NamedStep[]; truncated: boolean }> {
  const [{ steps, truncated }, awaited] = await Promise.all([historyOf(env, instance), awaitedSteps(env.DB, instance.id)]);
  const named = (step: StepRecord) => ({ ...step, subject: null, approvalId: null, ...awaited.get(step.eventType ?? "") });
  return { steps: steps.map(named), truncated };
}

async function partOf(env: EngineEnv, workflow: string, name: string): Promise<History> {
  const steps = new Map<string, StepRecord>();
  let events = 0;
  for await (const event of pastEvents(env, workflow, name)) {
    if (++events > MAX_EVENTS) break;
    foldEvent(steps, event);
  }
  return { steps: [...steps.values()], truncated: events > MAX_EVENTS };
}

async function* pastEvents(env: EngineEnv, workflow: string, id: string): AsyncGenerator<StepEvent> {
  const subscription = await subscribe(env, workflow, id).catch(() => undefined);
  if (!subscription) return;
  try {
    for (let quietMs = FIRST_EVENT_MS; ; quietMs = QUIET_MS) {
      const next = subscription.next().catch(() => undefined);
      const event = await Promise.race([next, scheduler.wait(quietMs)]);
      if (!event || event.done) return;
      yield event.value as StepEvent;
    }
  } finally {
    subscription[Symbol.dispose]();
  }
}

async function subscribe(env: EngineEnv, workflow: string, id: string) {
  const instance = await workflowBinding(env, workflow).get(id);
  return instance.subscribe({ filter: [...WANTED] });
}

function foldEvent(steps: Map<string, StepRecord>, event: StepEvent): void {
  const step = steps.get(event.stepName) ?? newStep(event);
  steps.set(event.stepName, { ...step, ...changeOf(step, event) });
}

/** What an event says of its step. */
function changeOf({ attempts }: StepRecord, event: StepEvent): Partial<StepRecord> {
  const at = event.timestamp;
  switch (event.type) {
    case "step_started":
      return {};
    case "attempt_started": {
      const attempt = { attempt: event.attempt, startedAt: at, endedAt: null, error: null, retryDelayMs: null };
      return { state: "running", endedAt: null, attempts: [...attempts, attempt] };
    }
    case "attempt_completed":
      return { state: "complete", endedAt: at, attempts: withLastEnded(attempts, { endedAt: at }) };
    case "attempt_errored": {
      const end = { endedAt: at, error: bounded(event.error), retryDelayMs: event.retryDelayMs ?? null };
      return { state: "retrying", attempts: withLastEnded(attempts, end) };
    }
    case "step_errored":
      return { state: "errored", endedAt: at };
    case "sleep_started":
      return { state: "sleeping", endedAt: null, durationMs: event.durationMs };
    case "wait_started":
      return { state: "waiting", endedAt: null, eventType: event.eventType };
    case "sleep_completed":
    case "wait_completed":
      return { state: "complete", endedAt: at };
    case "wait_timed_out":
      return { state: "timed_out", endedAt: at };
  }
}

function withLastEnded(attempts: AttemptRecord[], end: Partial<AttemptRecord>): AttemptRecord[] {
  const last = attempts.at(-1);
  return last ? attempts.with(-1, { ...last, ...end }) : attempts;
}

function newStep({ type, stepName, timestamp }: StepEvent): StepRecord {
  const [, name = stepName, count = "1"] = /^(.*)-(\d+)$/s.exec(stepName) ?? [];
  return {
    type: type.startsWith("sleep") ? "sleep" : type.startsWith("wait") ? "waitForEvent" : "do",
    name,
    count: Number(count),
    state: "running",
    startedAt: timestamp,
    endedAt: null,
    attempts: [],
    durationMs: null,
    eventType: null,
  };
}

function bounded({ name, message }: { name: string; message: string }): { name: string; message: string } {
  return { name: beginning(name, 100), message: beginning(message, MAX_MESSAGE_CHARACTERS) };
}
