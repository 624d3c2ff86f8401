import type { EngineEnv } from "../contract/bindings.ts";
import { CLOCKS_APART_MS } from "../contract/patience.ts";
import type { StepMode } from "../contract/step-mode.ts";
import { codeLabelOf, labelOf, type OwnPart, ownName, ownStep, UNDO_PREFIX } from "../contract/step-names.ts";
import { isDoubtEvent } from "../guard/doubt.ts";
import { IN_PASS_MS } from "../pass/lean.ts";
import { isResumeEvent } from "../signals/held.ts";
import { awaitedSteps } from "../signals/wait.ts";
import { type Operator, selectRunBegun } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import type { EntryState } from "../store/inbox/entry.ts";
import { ENDED } from "../store/instances/status.ts";
import { type Effect, effectsOf } from "./effects.ts";
import { type Hold, heldState, runAndUndoOf, selectHold } from "./held-steps.ts";
import type { StepRecord } from "./history.ts";
import type { Instance, StepProgress } from "./instances.ts";

/** A step with its name in the code and its records. */
export interface NamedStep extends Omit<StepRecord, "startedAt" | "state" | "reads"> {
  /**
   * The platform's state of the step, except where that state is misleading. The platform shows a step as complete if an operator must
   * resolve its effect or resume its run, or if a stop held the step. The platform shows a step as running if the run was ended during the
   * step.
   */
  state: StepRecord["state"] | "in_doubt" | "paused" | "stopped";
  /**
   * For a step of the engine: the step of the code to which the engine's step belongs, and the purpose of the engine's step. Null for a
   * step of the code.
   */
  own: { of: string; part: OwnPart } | null;
  /** The value `lean` means an inline step, which the platform does not bill as a step. */
  mode: StepMode;
  /** True for an inline step of an earlier run whose cached output this run reuses. */
  kept: boolean;
  /** When the step started; null if the platform has removed the history. For an inline step, this time comes from the inbox. */
  startedAt: number | null;
  /** The subject of the event that the step awaits. */
  subject: string | null;
  /** The id of the question that the step asks. */
  approvalId: string | null;
  /** The progress that its last attempt reported; null without a report. */
  progress: StepProgress | null;
  /** The step's effects in the inbox, by generation; empty for a step without an effect, and before the first write. */
  effects: Pick<Effect, "key" | "class" | "generation" | "state">[];
}

type Shown = Pick<Instance, "id" | "workflow" | "error" | "status"> & Partial<Pick<Instance, "undo" | "run" | "progress">>;

/**
 * An instance's steps with the code's names: from the platform, and from the inbox for steps that the platform does not know. These are
 * inline steps, and steps that the platform's retention or a retry has removed. The engine's waits, and waits without a row, keep the
 * platform's names.
 */
export async function stepsOf(env: EngineEnv, by: Operator, instance: Shown): Promise<{ steps: NamedStep[]; truncated: boolean }> {
  const [{ steps, truncated, own }, awaited, effects, begunAt, [hold]] = await Promise.all([
    runAndUndoOf(env, instance),
    awaitedSteps(env.DB, instance.id),
    effectsOf(env, by, instance.id),
    runBegunAt(env, by, instance),
    query<Hold>(env.DB, selectHold(instance.id)),
  ]);
  const waitNames = new Set([...awaited.values()].map(({ name }) => name));
  const recorded = Map.groupBy(effects, ({ step, item }) => labelOf(step, item));
  const heldBack = heldBackIn(steps);
  const isOver = ENDED.has(instance.status);
  const remembered = steps.map((step, place): NamedStep => {
    const { until = null, since: _, ...named } = awaited.get(step.eventType ?? "") ?? {};
    const waits = step.state === "waiting" && { until };
    const effects = (step.type === "do" && recorded.get(step.name)?.map(effectView)) || [];
    const doubted = step.state === "complete" && effects.at(-1)?.state === "in_doubt" && ({ state: "in_doubt", endedAt: null } as const);
    const paused = step.state === "complete" && heldBack.has(step.name) && ({ state: "paused", endedAt: null } as const);
    const stopped = isOver && UNDER_WAY.has(step.state) && ({ state: "stopped", until: null } as const);
    const label = codeLabelOf(step);
    const isOfRun = place < own && !waitNames.has(label) && !doubted && !paused;
    const held = isOfRun && heldState(step, recorded.get(label)?.at(-1)?.state, hold);
    const unnamed = step.eventType !== null && isOwnEvent(step.eventType) && { eventType: null };
    const { reads: __, ...told } = withCause(begunInPass(step, recorded.get(step.name)?.at(-1)), instance);
    const attempts = doubted ? withDoubt(told.attempts, recorded.get(step.name)?.at(-1)) : told.attempts;
    const part = ownStep(step)?.part;
    return {
      ...told,
      attempts,
      own: part ? { of: label, part } : null,
      mode: "platform",
      kept: false,
      ...waits,
      subject: null,
      approvalId: null,
      progress: step.type === "do" ? progressOf(label, step.attempts.at(-1)?.attempt, instance) : null,
      ...named,
      ...unnamed,
      ...doubted,
      ...paused,
      ...stopped,
      ...(held && { state: held, endedAt: null }),
      effects,
    };
  });
  const names = new Set(steps.flatMap(({ type, name }) => (type === "do" ? [name] : [])));
  const forgotten = [...recorded].flatMap(([label, own]) =>
    names.has(label) ? [] : [{ ...forgottenStep(label, own, begunAt), progress: progressOf(label, 1, instance) }],
  );
  const all = [...remembered, ...forgotten].toSorted((one, other) => timeOf(one) - timeOf(other));
  const since = new Map([...awaited.values()].map((one) => [one.name, one.since]));
  return { steps: keptInPlace(all, [...recorded.keys()], since), truncated };
}

const UNDER_WAY: ReadonlySet<string> = new Set(["running", "retrying", "sleeping", "waiting"] satisfies StepRecord["state"][]);

function isOwnEvent(type: string): boolean {
  return isDoubtEvent(type) || isResumeEvent(type);
}

/** The steps that a pause has held. Each such step is followed by an open wait for the resume, or by the attempt after that wait. */
function heldBackIn(steps: readonly StepRecord[]): ReadonlySet<string> {
  const told = steps.flatMap((step) => {
    const { about, part, nth } = ownStep(step) ?? {};
    const isHold = part === "paused" && step.state !== "complete";
    if (about === undefined || nth === undefined || !(isHold || part === "after_pause")) return [];
    return nth === 1 ? [about] : [ownName(about, "after_pause", nth - 1), ownName(about, "after_doubt", nth - 1)];
  });
  return new Set(told);
}

/** When the current run began, in milliseconds; 0 for the first run, and for a run whose start is unknown. */
async function runBegunAt(env: EngineEnv, { tenantId }: Operator, { id, run = 1, undo = null, status }: Shown): Promise<number> {
  // An undo reuses no output of the run, and a stop does not begin a new run.
  if (run <= 1 || undo !== null || status === "terminated") return 0;
  const [row] = await query<{ at: number | null }>(env.DB, selectRunBegun(tenantId, id, run));
  return row?.at ?? 0;
}

/**
 * Inserts cached outputs of earlier runs in the code's order. Each cached output follows the steps that were recorded earlier, and the
 * waits that began earlier (`since` contains the times of waits). Steps of an undo precede this run.
 */
function keptInPlace(steps: readonly NamedStep[], recorded: readonly string[], since: ReadonlyMap<string, number>): NamedStep[] {
  const rank = new Map(recorded.map((label, index) => [label, label.startsWith(UNDO_PREFIX) ? -1 : index]));
  const rankOf = ({ name }: NamedStep) => rank.get(name) ?? -1;
  const placed = steps.filter(({ kept }) => !kept);
  for (const step of steps.filter(({ kept }) => kept).toSorted((one, other) => rankOf(one) - rankOf(other))) {
    const isBefore = (other: NamedStep) =>
      rank.has(other.name) ? rankOf(other) < rankOf(step) : (since.get(codeLabelOf(other)) ?? Number.POSITIVE_INFINITY) < timeOf(step);
    placed.splice(placed.findLastIndex(isBefore) + 1, 0, step);
  }
  return placed;
}

/** If a step began inline in a replay and continued on the platform, returns the step with the time of its inline start. */
function begunInPass(step: StepRecord, effect: Effect | undefined): StepRecord {
  const [first, ...others] = step.attempts;
  const beganAt = effect?.beganAt ?? Number.POSITIVE_INFINITY;
  if (step.type !== "do" || !first || beganAt >= step.startedAt || beganAt < step.startedAt - IN_PASS_MS - CLOCKS_APART_MS) return step;
  return { ...step, startedAt: beganAt, attempts: [{ ...first, startedAt: beganAt }, ...others] };
}

/** Adds the error message from the instance's row to a step, because the platform drops the message of an error that permits no retry. */
function withCause(step: StepRecord, { error }: Shown): StepRecord {
  const last = step.attempts.at(-1);
  if (step.state !== "errored" || !last?.error || error?.step !== step.name) return step;
  return { ...step, attempts: step.attempts.with(-1, { ...last, error: { ...last.error, message: error.message } }) };
}

/** Adds the error from the inbox entry to an attempt that ended in doubt, because the platform shows such an attempt as successful. */
function withDoubt(attempts: StepRecord["attempts"], effect: Effect | undefined): StepRecord["attempts"] {
  const last = attempts.at(-1);
  if (!last || last.error || effect?.state !== "in_doubt" || !effect.error) return attempts;
  return attempts.with(-1, { ...last, error: { name: "Error", message: effect.error.message, code: effect.error.code } });
}

/** The progress of a step, if its last attempt reported it. */
function progressOf(label: string, attempt: number | undefined, { progress = [] }: Shown): StepProgress | null {
  return progress.find((one) => one.step === label && one.attempt === attempt) ?? null;
}

const STATES = {
  claimed: "running",
  failed: "errored",
  in_doubt: "in_doubt",
  confirmed: "complete",
  done: "complete",
  superseded: "complete",
} as const satisfies Record<EntryState, NamedStep["state"]>;

function forgottenStep(name: string, effects: readonly Effect[], begunAt: number): Omit<NamedStep, "progress"> {
  const last = effects.at(-1);
  const state = STATES[last?.state ?? "done"];
  const startedAt = last?.beganAt ?? null;
  const endedAt = last?.endedAt ?? (state === "complete" || state === "errored" ? (last?.updatedAt ?? null) : null);
  const attempts = startedAt === null ? [] : [{ attempt: 1, startedAt, endedAt, error: null, retryDelayMs: null }];
  return {
    type: "do",
    name,
    own: null,
    mode: last?.endedAt ? "lean" : "platform",
    kept: last?.endedAt ? last.endedAt < begunAt : false,
    count: 1,
    state,
    startedAt,
    endedAt,
    attempts: withDoubt(attempts, last),
    maxAttempts: null,
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
