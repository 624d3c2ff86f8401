import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { component, listOf, redacted, rowOf, timestamp } from "../contract/row.ts";
import { CHILD_PREFIX, codeLabelOf, labelOf, OWN_PARTS, ownStep, UNDO_PREFIX } from "../contract/step-names.ts";
import { CLOCKS_APART_MS } from "../contract/within.ts";
import { isDoubtEvent } from "../guard/doubt.ts";
import { INLINE_MS } from "../replay/inline.ts";
import { isResumeEvent } from "../signals/approval.ts";
import { awaitedSteps } from "../signals/wait.ts";
import { type Operator, selectRunBegun } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import type { EntryState } from "../store/inbox/entry.ts";
import { ENDED } from "../store/instances/status.ts";
import { nextAttemptAt } from "./activity.ts";
import { type Effect, effectsOf } from "./effects.ts";
import { historyOf, type StepRecord } from "./history.ts";
import { type Instance, StepProgress } from "./instance-row.ts";
import { progressOf } from "./instances.ts";
import { type Hold, heldState, selectHold, triedBefore } from "./live/step-feed.ts";

const Attempt = component("Attempt", {
  attempt: z.int().describe("The number of the attempt. It starts at 1, again after a restart of the instance."),
  started_at: timestamp,
  ended_at: timestamp.nullable(),
  error: z.object({ name: z.string(), message: z.string() }).nullable().meta(redacted),
  retry_delay_ms: z.int().nullable().describe("The delay before the next attempt on the platform."),
});

export const Step = component("Step", {
  type: z.enum(["do", "sleep", "waitForEvent"]),
  name: z.string().describe("The step's name in the code. A wait has the name of its step, which first runs as `do`."),
  own: z
    .object({ of: z.string(), part: z.enum(OWN_PARTS) })
    .nullable()
    .describe(
      "Null for a step of the workflow code. For a step of the engine: the step of the code (`of`) and its purpose. `in_doubt`, `paused`: waits for an operator. `after_doubt`, `after_pause`: the attempt after that wait. `signal`, `answer`: waits for an event or an answer. `time_over`: the check at the timeout. `read_again`: repeats a read that was unavailable. `run`: a new attempt of the step. `version`: the deployed code lacks the version of the instance.",
    ),
  mode: z.enum(["platform", "inline"]).describe("`inline`: an inline step without a platform step, which is not billed."),
  kept: z.boolean().describe("True for an inline step of an earlier run; this run keeps its output."),
  count: z.int().describe("Distinguishes calls with the same name, in call order."),
  state: z
    .enum(["running", "retrying", "sleeping", "waiting", "in_doubt", "paused", "complete", "errored", "timed_out", "stopped"])
    .describe(
      "`in_doubt`: an operator must decide whether its effect happened; the wait and the following steps come next, with `own`. `paused`: an operator paused the run before it started; the same steps follow. `stopped`: its run ended before the step did, or was stopped before it started.",
    ),
  started_at: timestamp.nullable().describe("When the step started. Null if the platform has removed the step's history."),
  ended_at: timestamp.nullable(),
  attempts: z
    .array(Attempt)
    .describe("Attempts of the current run from the platform; empty if removed there. The delay between two is `retry_delay_ms`."),
  max_attempts: z
    .nullable(z.int())
    .describe("The first attempt and all retries; null for a sleep, a wait and an inline step, and if unknown."),
  next_attempt_at: timestamp.nullable().describe("For a `retrying` step: when the next attempt starts."),
  duration_ms: z.int().nullable().describe("For a sleep: its duration."),
  until: timestamp.nullable().describe("For a sleep, and for a current wait: its end."),
  event_type: z.string().nullable().describe("For a wait: the event type; null for a question, an unknown outcome and a pause."),
  subject: z.string().nullable().describe("For a wait: the required subject of the event."),
  approval_id: z.string().nullable().describe("The id of the question for which the step waits; null for other steps."),
  child_id: z.string().nullable().describe("The id of the child for which the step waits; null for other steps."),
  progress: StepProgress.nullable().describe(
    "The last progress that its last attempt reported, at most one report a second; null without a report.",
  ),
  effects: listOf({ key: z.string(), class: z.string(), generation: z.int(), state: z.string() }).describe(
    "Its recorded effects, one per generation. `/effects` has all details.",
  ),
});
export type Step = z.infer<typeof Step>;

type Shown = Pick<Instance, "id" | "workflow" | "error" | "status"> & Partial<Pick<Instance, "undo_action" | "run">>;

/**
 * An instance's steps with the code's names, from the platform. The inbox has inline steps, and steps that the platform's retention or a
 * retry has removed. The engine's waits, and waits without a row, keep the platform's names.
 */
export async function stepsOf(env: EngineEnv, by: Operator, instance: Shown): Promise<{ steps: Step[]; truncated: boolean }> {
  const [{ steps, truncated, own }, awaited, effects, begunAt, [hold], reports] = await Promise.all([
    historyOf(env, instance),
    awaitedSteps(env.DB, instance.id),
    effectsOf(env, by, instance.id),
    runBegunAt(env, by, instance),
    query<Hold>(env.DB, selectHold(instance.id)),
    progressOf(env, instance.id),
  ]);
  const waitNames = new Set([...awaited.values()].map(({ name }) => name));
  const names = new Set(steps.flatMap(({ type, name }) => (type === "do" ? [name] : [])));
  const recorded = Map.groupBy(effects, ({ step, item }) => {
    // The platform's step that starts a child has the name of the code's step.
    const started = step.startsWith(CHILD_PREFIX) ? labelOf(step.slice(CHILD_PREFIX.length), item) : "";
    return names.has(started) ? started : labelOf(step, item);
  });
  const heldBack = heldBackIn(steps);
  const isOver = ENDED.has(instance.status);
  const remembered = steps.map((step, place): Step => {
    const event = step.event_type ?? "";
    const awaits = awaited.get(event);
    const effects = (step.type === "do" && recorded.get(step.name)) || [];
    const isDoubt = step.state === "complete" && effects.at(-1)?.state === "in_doubt";
    const isPaused = step.state === "complete" && heldBack.has(step.name);
    const label = codeLabelOf(step);
    const isOfRun = place < own && !waitNames.has(label) && !isDoubt && !isPaused;
    const held = isOfRun && heldState(step, recorded.get(label)?.at(-1)?.state, hold);
    const isStopped = isOver && UNDER_WAY.has(step.state);
    const state = held || (isStopped && "stopped") || (isPaused && "paused") || (isDoubt && "in_doubt") || step.state;
    const told = withCause(begunInline(step, effects.at(-1)), instance);
    const part = ownStep(step)?.part;
    return rowOf(Step, {
      ...told,
      state,
      ended_at: state === step.state ? told.ended_at : null,
      attempts: isDoubt ? withDoubt(told.attempts, effects.at(-1)) : told.attempts,
      next_attempt_at: nextAttemptAt(step),
      until: isStopped ? null : step.state === "waiting" ? (awaits?.until ?? null) : told.until,
      own: part ? { of: label, part } : null,
      mode: "platform",
      kept: false,
      name: awaits?.name ?? step.name,
      event_type: isDoubtEvent(event) || isResumeEvent(event) ? null : awaits ? awaits.eventType : step.event_type,
      subject: awaits?.subject ?? null,
      approval_id: awaits?.approvalId ?? null,
      child_id: awaits?.childId ?? null,
      progress: step.type === "do" ? reportOf(label, step.attempts.at(-1)?.attempt, reports) : null,
      effects,
    });
  });
  const forgotten = [...recorded].flatMap(([label, own]) =>
    names.has(label) ? [] : [forgottenStep(label, own, begunAt, reportOf(label, 1, reports))],
  );
  const all = [...remembered, ...forgotten].toSorted((one, other) => timeOf(one) - timeOf(other));
  const since = new Map([...awaited.values()].map((one) => [one.name, one.since]));
  return { steps: keptInPlace(all, [...recorded.keys()], since), truncated };
}

const UNDER_WAY: ReadonlySet<string> = new Set(["running", "retrying", "sleeping", "waiting"] satisfies StepRecord["state"][]);

/** The steps that a pause has held. Each such step is followed by an open wait for the resume, or by the attempt after that wait. */
function heldBackIn(steps: readonly StepRecord[]): ReadonlySet<string> {
  const told = steps.flatMap((step) => {
    const { about, part, nth } = ownStep(step) ?? {};
    const isHold = part === "paused" && step.state !== "complete";
    if (about === undefined || nth === undefined || !(isHold || part === "after_pause")) return [];
    return triedBefore(about, nth);
  });
  return new Set(told);
}

/** When the current run began, in milliseconds; 0 for the first run, and for a run whose start is unknown. */
async function runBegunAt(env: EngineEnv, { tenantId }: Operator, { id, run = 1, undo_action = null, status }: Shown): Promise<number> {
  // An undo reuses no output of the run, and a stop does not begin a new run.
  if (run <= 1 || undo_action !== null || status === "terminated") return 0;
  const [row] = await query<{ at: number | null }>(env.DB, selectRunBegun(tenantId, id, run));
  return row?.at ?? 0;
}

/**
 * Inserts cached outputs of earlier runs in the code's order: after the steps that were recorded earlier, and the waits that began earlier
 * (`since`). Steps of an undo precede this run.
 */
function keptInPlace(steps: readonly Step[], recorded: readonly string[], since: ReadonlyMap<string, number>): Step[] {
  const rank = new Map(recorded.map((label, index) => [label, label.startsWith(UNDO_PREFIX) ? -1 : index]));
  const rankOf = ({ name }: Step) => rank.get(name) ?? -1;
  const placed = steps.filter(({ kept }) => !kept);
  for (const step of steps.filter(({ kept }) => kept).toSorted((one, other) => rankOf(one) - rankOf(other))) {
    const isBefore = (other: Step) =>
      rank.has(other.name) ? rankOf(other) < rankOf(step) : (since.get(codeLabelOf(other)) ?? Number.POSITIVE_INFINITY) < timeOf(step);
    placed.splice(placed.findLastIndex(isBefore) + 1, 0, step);
  }
  return placed;
}

/** If a step began inline in a replay and continued on the platform, returns the step with the time of its inline start. */
function begunInline(step: StepRecord, effect: Effect | undefined): StepRecord {
  const [first, ...others] = step.attempts;
  const beganAt = effect?.began_at ?? Number.POSITIVE_INFINITY;
  if (step.type !== "do" || !first || beganAt >= step.started_at || beganAt < step.started_at - INLINE_MS - CLOCKS_APART_MS) return step;
  return { ...step, started_at: beganAt, attempts: [{ ...first, started_at: beganAt }, ...others] };
}

/** The platform drops the message of an error that permits no retry, so the instance's row provides it. */
function withCause(step: StepRecord, { error }: Shown): StepRecord {
  const last = step.attempts.at(-1);
  if (step.state !== "errored" || !last?.error || error?.step !== step.name) return step;
  return { ...step, attempts: step.attempts.with(-1, { ...last, error: { ...last.error, message: error.message } }) };
}

/** The platform shows an attempt that ended in doubt as successful, so the inbox entry provides the error. */
function withDoubt(attempts: StepRecord["attempts"], effect: Effect | undefined): StepRecord["attempts"] {
  const last = attempts.at(-1);
  if (!last || last.error || effect?.state !== "in_doubt" || !effect.error) return attempts;
  return attempts.with(-1, { ...last, error: { name: "Error", message: effect.error.message, code: null } });
}

/** The report of a step, if its last attempt reported it. */
function reportOf(label: string, attempt: number | undefined, reports: readonly StepProgress[]): StepProgress | null {
  return reports.find((one) => one.step === label && one.attempt === attempt) ?? null;
}

const STATES = {
  claimed: "running",
  failed: "errored",
  in_doubt: "in_doubt",
  confirmed: "complete",
  done: "complete",
  superseded: "complete",
} as const satisfies Record<EntryState, Step["state"]>;

const NO_STEP = Object.fromEntries(Object.keys(Step.shape).map((field) => [field, null]));

function forgottenStep(name: string, effects: readonly Effect[], begunAt: number, progress: StepProgress | null): Step {
  const last = effects.at(-1);
  const state = STATES[last?.state ?? "done"];
  const started_at = last?.began_at ?? null;
  const ended_at = last?.ended_at ?? (state === "complete" || state === "errored" ? (last?.updated_at ?? null) : null);
  const attempts = started_at === null ? [] : [{ attempt: 1, started_at, ended_at, error: null, retry_delay_ms: null }];
  return rowOf(Step, {
    ...NO_STEP,
    type: "do",
    name,
    own: null,
    mode: last?.ended_at ? "inline" : "platform",
    kept: last?.ended_at ? last.ended_at < begunAt : false,
    count: 1,
    state,
    started_at,
    ended_at,
    attempts: withDoubt(attempts, last),
    progress,
    effects,
  });
}

function timeOf({ started_at, ended_at }: Step): number {
  return Date.parse(started_at ?? ended_at ?? "") || Number.POSITIVE_INFINITY;
}
