import type { EngineEnv } from "../contract/bindings.ts";
import { isDoubtEvent } from "../guard/doubt.ts";
import { labelOf } from "../pass/history.ts";
import { awaitedSteps } from "../signals/wait.ts";
import type { Operator } from "../store/actions.ts";
import type { EntryState } from "../store/inbox/entry.ts";
import { type Effect, effectsOf } from "./effects.ts";
import { historyOf, inItsWords, type StepRecord } from "./history.ts";
import type { Instance } from "./instances.ts";

/** A step in the words of its code, with what is recorded of it. */
export interface NamedStep extends Omit<StepRecord, "startedAt" | "state"> {
  /** As the platform has it, but for a step that waits for a person to say whether its effect happened: for the platform that is over. */
  state: StepRecord["state"] | "in_doubt";
  /** Null for one whose history the platform has forgotten. Of one that a pass took itself, the inbox knows it. */
  startedAt: number | null;
  /** What an event has to be about that it waits for. */
  subject: string | null;
  /** The question that it asks. */
  approvalId: string | null;
  /** Its effects as the inbox has them, each generation by itself; none for a step that has none, or whose write is yet to come. */
  effects: Pick<Effect, "key" | "class" | "generation" | "state">[];
}

type Shown = Pick<Instance, "id" | "workflow" | "error"> & Partial<Pick<Instance, "undo">>;

/**
 * An instance's steps in the words of its code: as the platform remembers them, and of those that it has forgotten (after its retention, or
 * because a retry made them anew), or never knew (because a pass took them itself), what the inbox has. Waits that are pruned, and the
 * engine's own, are called as the platform calls them.
 */
export async function stepsOf(env: EngineEnv, by: Operator, instance: Shown): Promise<{ steps: NamedStep[]; truncated: boolean }> {
  const [{ steps, truncated }, awaited, effects] = await Promise.all([
    historyOf(env, instance),
    awaitedSteps(env.DB, instance.id),
    effectsOf(env, by, instance.id),
  ]);
  const recorded = Map.groupBy(effects, ({ step, item }) => labelOf(step, item));
  const remembered = steps.map((step): NamedStep => {
    const { until = null, ...named } = awaited.get(step.eventType ?? "") ?? {};
    const waits = step.state === "waiting" && { until };
    const effects = (step.type === "do" && recorded.get(step.name)?.map(effectView)) || [];
    const doubted = step.state === "complete" && effects.at(-1)?.state === "in_doubt" && ({ state: "in_doubt", endedAt: null } as const);
    const own = step.eventType !== null && isDoubtEvent(step.eventType) && { eventType: null };
    return { ...withCause(spoken(step), instance), ...waits, subject: null, approvalId: null, ...named, ...own, ...doubted, effects };
  });
  const names = new Set(steps.flatMap(({ type, name }) => (type === "do" ? [name] : [])));
  const forgotten = [...recorded].flatMap(([label, own]) => (names.has(label) ? [] : [forgottenStep(label, own)]));
  const all = [...remembered, ...forgotten].toSorted((one, other) => timeOf(one) - timeOf(other));
  return { steps: all, truncated };
}

function spoken(step: StepRecord): StepRecord {
  const attempts = step.attempts.map(({ error, ...attempt }) => {
    return { ...attempt, error: error && { ...error, message: inItsWords(error.message) } };
  });
  return { ...step, attempts };
}

/** Of an error that lets a step be tried no more, the platform keeps no words: the row of the instance has them. */
function withCause(step: StepRecord, { error }: Shown): StepRecord {
  const last = step.attempts.at(-1);
  if (step.state !== "errored" || !last?.error || error?.step !== step.name) return step;
  return { ...step, attempts: step.attempts.with(-1, { ...last, error: { ...last.error, message: error.message } }) };
}

/** What an entry says of the step that it was recorded by. */
const STATES = {
  claimed: "running",
  failed: "errored",
  in_doubt: "in_doubt",
  confirmed: "complete",
  done: "complete",
  superseded: "complete",
} as const satisfies Record<EntryState, NamedStep["state"]>;

function forgottenStep(name: string, effects: readonly Effect[]): NamedStep {
  const last = effects.at(-1);
  const state = STATES[last?.state ?? "done"];
  const startedAt = last?.beganAt ?? null;
  const endedAt = state === "complete" || state === "errored" ? (last?.updatedAt ?? null) : null;
  return {
    type: "do",
    name,
    count: 1,
    state,
    startedAt,
    endedAt,
    attempts: startedAt === null ? [] : [{ attempt: 1, startedAt, endedAt, error: null, retryDelayMs: null }],
    durationMs: null,
    until: null,
    eventType: null,
    subject: null,
    approvalId: null,
    effects: effects.map(effectView),
  };
}

function effectView({ key, class: effectClass, generation, state }: Effect): NamedStep["effects"][number] {
  return { key, class: effectClass, generation, state };
}

function timeOf({ startedAt, endedAt }: NamedStep): number {
  return startedAt ?? endedAt ?? Number.POSITIVE_INFINITY;
}
