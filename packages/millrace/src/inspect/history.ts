import { type EngineEnv, workflowBinding } from "../contract/bindings.ts";
import type { ErrorCode } from "../contract/errors.ts";
import { platformId } from "../contract/ids.ts";
import { saysRead } from "../contract/step-names.ts";
import { beginning } from "../contract/text.ts";
import { readTold } from "../contract/told-error.ts";
import type { Instance } from "./instance-row.ts";

export interface AttemptError {
  name: string;
  message: string;
  code: ErrorCode | null;
}

/** The attempt number starts at 1 again after a restart of the instance. */
interface AttemptRecord {
  attempt: number;
  started_at: number;
  ended_at: number | null;
  error: AttemptError | null;
  retry_delay_ms: number | null;
}

/** A step in the platform's history, with the field names of `Step`. Times are milliseconds. */
export interface StepRecord {
  type: "do" | "sleep" | "waitForEvent";
  name: string;
  /** The position of the call among calls with the same name, starting at 1. */
  count: number;
  state: "running" | "retrying" | "sleeping" | "waiting" | "complete" | "errored" | "timed_out";
  started_at: number;
  ended_at: number | null;
  attempts: AttemptRecord[];
  max_attempts: number | null;
  /** True if the step is known to be a read without effects. */
  reads: boolean;
  duration_ms: number | null;
  /** When a running sleep ends. */
  until: number | null;
  /** The platform's name of the event that a wait expects. */
  event_type: string | null;
}

/** The platform streams past events, then new ones. After a pause of this length, all past events were received. */
export const QUIET_MS = 50;
export const FIRST_EVENT_MS = 1000;
const SHOWN_EVENTS = 500;
/** The platform allows 10,000 steps, and a step usually has three or four events. */
const ALL_EVENTS = 250_000;
/** The platform's clock may be ahead of the Worker's clock by at most this much. */
const CLOCKS_APART_MS = 250;
const MAX_MESSAGE_CHARACTERS = 1000;

/** Events that contain a step's output or the message are not requested, because the API does not show them. */
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

export type StepEvent = Extract<WorkflowInstanceEvent, { type: (typeof WANTED)[number] }>;

type Remembered = Pick<Instance, "id" | "workflow"> & Partial<Pick<Instance, "undo_action">>;

/**
 * The platform's steps of an instance, oldest first, then those of its undo. Empty for an instance that the platform has removed, and for a
 * workflow without a binding. Of a long history, only the beginning is returned. `own` is the number of steps of the run.
 */
export async function historyOf(env: EngineEnv, { id, workflow, undo_action = null }: Remembered, most = SHOWN_EVENTS) {
  const parts = await Promise.all(platformNames(id, undo_action).map((name) => partOf(env, workflow, name, most)));
  return {
    steps: parts.flatMap(({ steps }) => steps),
    truncated: parts.some(({ truncated }) => truncated),
    own: parts[0]?.steps.length ?? 0,
  };
}

export function platformNames(id: string, undo: string | null): string[] {
  return undo === null ? [id] : [id, platformId(id, undo)];
}

/** Like `historyOf`, without a limit, because an operator action must consider every step. */
export function wholeHistoryOf(env: EngineEnv, instance: Remembered) {
  return historyOf(env, instance, ALL_EVENTS);
}

/** The platform's steps of a run or of an undo, and its start; null if the platform has removed it. */
export async function partOf(env: EngineEnv, workflow: string, name: string, most = ALL_EVENTS) {
  const steps = new Map<string, StepRecord>();
  let startedAt: number | null = null;
  let events = 0;
  const askedAt = Date.now();
  for await (const event of pastEvents(env, workflow, name, [...WANTED, "workflow_started"])) {
    // A busy instance emits new events without end, but the caller needs only the past events.
    if (event.timestamp > askedAt + CLOCKS_APART_MS) break;
    if (event.type === "workflow_started") startedAt ??= event.timestamp;
    else if (++events > most) break;
    else foldEvent(steps, event as StepEvent);
  }
  return { startedAt, steps: [...steps.values()], truncated: events > most };
}

export interface StoredStep extends Pick<StepRecord, "type" | "name" | "state" | "reads"> {
  readonly output: unknown;
  readonly error: string | null;
}

export async function storedSteps(env: EngineEnv, workflow: string, id: string): Promise<StoredStep[]> {
  const steps = new Map<string, StepRecord>();
  const outputs = new Map<string, unknown>();
  for await (const event of pastEvents(env, workflow, id, [...WANTED, "step_completed"])) {
    if (event.type === "step_completed") outputs.set(event.stepName, event.output);
    else foldEvent(steps, event as StepEvent);
  }
  return [...steps].map(([key, { type, name, state, reads, attempts }]) => {
    // Between its completion and the event, a step has no output yet.
    const isDone = type !== "do" || outputs.has(key) || state !== "complete";
    return {
      type,
      name,
      reads,
      state: isDone ? state : "running",
      output: outputs.get(key) ?? null,
      error: attempts.at(-1)?.error?.message ?? null,
    };
  });
}

/** The platform's names of the steps that a pause or stop held, which it shows as complete although their code did not run. */
export async function heldSteps(env: EngineEnv, workflow: string, id: string): Promise<ReadonlySet<string>> {
  const held = new Set<string>();
  for await (const event of pastEvents(env, workflow, id, ["step_completed"])) {
    const { stepName, output } = event as Completed;
    if (typeof output === "object" && output !== null && "held" in output) held.add(stepName);
  }
  return held;
}

type Completed = Extract<WorkflowInstanceEvent, { type: "step_completed" }>;

async function* pastEvents(
  env: EngineEnv,
  workflow: string,
  id: string,
  wanted: readonly WorkflowInstanceEventType[],
): AsyncGenerator<WorkflowInstanceEvent> {
  const subscription = await subscribe(env, workflow, id, wanted).catch(() => undefined);
  if (!subscription) return;
  try {
    for (let quietMs = FIRST_EVENT_MS; ; quietMs = QUIET_MS) {
      const next = subscription.next().catch(() => undefined);
      const event = await Promise.race([next, scheduler.wait(quietMs)]);
      if (!event || event.done) return;
      yield event.value;
    }
  } finally {
    subscription[Symbol.dispose]();
  }
}

/** Subscribes to an instance's events from the first one on. Throws the platform's errors, also for an unknown instance. */
export async function subscribe(env: EngineEnv, workflow: string, id: string, wanted: readonly WorkflowInstanceEventType[] = WANTED) {
  const instance = await workflowBinding(env, workflow).get(id);
  return instance.subscribe({ filter: [...wanted] });
}

export function foldEvent(steps: Map<string, StepRecord>, event: StepEvent): void {
  const step = steps.get(event.stepName) ?? newStep(event);
  steps.set(event.stepName, { ...step, ...changeOf(step, event) });
}

function changeOf({ attempts }: StepRecord, event: StepEvent): Partial<StepRecord> {
  const at = event.timestamp;
  switch (event.type) {
    case "step_started": {
      const limit = event.config?.retries.limit;
      return { reads: saysRead(event.config?.timeout), max_attempts: Number.isInteger(limit) ? Number(limit) + 1 : null };
    }
    case "attempt_started": {
      const attempt = { attempt: event.attempt, started_at: at, ended_at: null, error: null, retry_delay_ms: null };
      return { state: "running", ended_at: null, attempts: [...attempts, attempt] };
    }
    case "attempt_completed":
      return { state: "complete", ended_at: at, attempts: withLastEnded(attempts, { ended_at: at }) };
    case "attempt_errored": {
      const end = { ended_at: at, error: attemptError(event.error), retry_delay_ms: event.retryDelayMs ?? null };
      return { state: "retrying", attempts: withLastEnded(attempts, end) };
    }
    case "step_errored":
      return { state: "errored", ended_at: at };
    case "sleep_started":
      return { state: "sleeping", ended_at: null, duration_ms: event.durationMs, until: at + event.durationMs };
    case "wait_started":
      return { state: "waiting", ended_at: null, event_type: event.eventType };
    case "sleep_completed":
    case "wait_completed":
      return { state: "complete", ended_at: at };
    case "wait_timed_out":
      return { state: "timed_out", ended_at: at };
  }
}

function withLastEnded(attempts: AttemptRecord[], end: Partial<AttemptRecord>): AttemptRecord[] {
  const last = attempts.at(-1);
  return last ? attempts.with(-1, { ...last, ...end }) : attempts;
}

function newStep({ type, stepName, timestamp }: StepEvent): StepRecord {
  return {
    type: type.startsWith("sleep") ? "sleep" : type.startsWith("wait") ? "waitForEvent" : "do",
    ...calledAs(stepName),
    state: "running",
    started_at: timestamp,
    ended_at: null,
    attempts: [],
    max_attempts: null,
    reads: false,
    duration_ms: null,
    until: null,
    event_type: null,
  };
}

export function attemptError({ name, message }: { name: string; message: string }): AttemptError {
  const told = readTold(message);
  return {
    name: beginning(name, 100),
    message: beginning(told?.message ?? message, MAX_MESSAGE_CHARACTERS),
    code: told?.code ?? null,
  };
}

/** The step's name in the code, and the position of the call. */
export function calledAs(stepName: string): { name: string; count: number } {
  const [, name = stepName, count = "1"] = /^(.*)-(\d+)$/s.exec(stepName) ?? [];
  return { name, count: Number(count) };
}
