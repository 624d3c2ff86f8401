import type { EngineEnv } from "../../contract/bindings.ts";
import type { PointAround } from "../../contract/crash-points.ts";
import type { Statement } from "../../contract/sql.ts";
import { labelOf } from "../../contract/step-names.ts";
import { type Effect, effectsAndFree } from "../../inspect/effects.ts";
import { getInstance, type Instance } from "../../inspect/instances.ts";
import { FRESH_MS } from "../../pass/fresh.ts";
import { type Action, actionIdOf, type Operator } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { forgetFailure, wentOnFrom } from "../../store/inbox/caught.ts";
import { DOUBTED } from "../../store/inbox/classes.ts";
import { leaveDoubts } from "../../store/inbox/doubts.ts";
import { beginRetry } from "../../store/instances/run.ts";
import { GOING_ON, RETRYABLE } from "../../store/instances/status.ts";
import { markInDoubt } from "../../store/instances/wait.ts";
import { forgetTold, reopenWait } from "../../store/waits.ts";
import { actAndTell } from "../act.ts";
import { noteOnConfirmed } from "./confirmed-output.ts";
import { failedBefore } from "./failed-before.ts";
import { caughtWithoutRecord, leftBehind, stillCaught, triedAnew, wentOnTo } from "./left.ts";
import { notListed, SET_BACK, withLost } from "./plan.ts";
import { assertRecorded, beginningOf, isBeingUndone, isStopped } from "./retry-beginning.ts";
import { findSetBack } from "./set-back.ts";
import { UNDO_VERDICTS, type UndoVerdict, undoEffects } from "./undo.ts";

/** What a retry would do with each guarded effect. */
export interface RetryPlan {
  from: string | null;
  /** Why it would be refused now; null when it would be done. */
  refused: string | null;
  /** What would follow, in a sentence. */
  follows: string;
  /** What it would keep that a person has said, and what to do where that is wrong; null where nobody has. */
  note: string | null;
  /** Of one whose undo failed, what that does with each that it has not taken back yet. */
  effects: { step: string; item: string; verdict: RetryVerdict | UndoVerdict }[];
}

const VERDICTS_OF_RETRY = ["kept", "runs", "caught", "in_doubt", "needs_output"] as const;

type RetryVerdict = (typeof VERDICTS_OF_RETRY)[number];

export const RETRY_VERDICTS = [...VERDICTS_OF_RETRY, ...UNDO_VERDICTS.filter((verdict) => verdict !== "in_doubt")];

/** Says what a retry would do, and does nothing. Errors: `instance_not_found`, `invalid_payload` for a step that nobody recorded. */
export async function planRetry(
  env: EngineEnv,
  by: Operator,
  instanceId: string,
  { from, anyway = false }: { from?: string | undefined; anyway?: boolean | undefined } = {},
): Promise<RetryPlan> {
  const instance = await getInstance(env, by, instanceId);
  const recorded = await effectsAndFree(env, by, instanceId);
  await assertRecorded(env, instance, recorded, from);
  const { failed, start, isForgotten } = await beginningOf(env, instance, from);
  const named = mustBeFree(instance, failed, anyway);
  const refused =
    whyAgain(instance, failed, recorded) ?? (await whyRefused(env, instance, named, wentOnTo(await leftBehind(env, instanceId), named)));
  const note = await noteOnConfirmed(env, by, instanceId, recorded);
  const plan = { from: start, refused, follows: followsFrom(instance, start, isForgotten), note };
  if (isBeingUndone(instance)) return { ...plan, effects: await undoEffects(env, by, instance) };
  const caught = instance.undone ? NONE : await stillCaught(env, instanceId, [failed, instance.error?.step]);
  const effects = recorded
    .filter(({ state, undo }) => state !== "superseded" && undo !== "undo_step")
    .map((effect) => ({ step: effect.step, item: effect.item, verdict: retryVerdictOn(effect, caught) }));
  const listed = new Set(effects.map(({ step, item }) => labelOf(step, item)));
  const failures = notListed(await caughtWithoutRecord(env, instance, caught), listed);
  // A step that failed before it recorded anything has no entry yet: it is the one that runs.
  const isListed = start === null || listed.has(start);
  const all = [...effects, ...failures, ...(isListed ? [] : [{ step: start, item: "", verdict: "runs" as const }])];
  const behind = isForgotten ? undefined : await findSetBack(env, instance);
  return behind ? { ...plan, from: null, follows: plan.follows + SET_BACK, effects: withLost(all, behind) } : { ...plan, effects: all };
}

function followsFrom(instance: Instance, start: string | null, isForgotten: boolean): string {
  if (isBeingUndone(instance)) return isForgotten ? `${FORGOTTEN}. ${AGAIN}` : "The undo continues at the step that failed.";
  if (instance.undone) return `The instance starts from the beginning and repeats the effects that were undone${BEHIND}${FIRST_TIME}`;
  if (isForgotten) return `${FORGOTTEN}. Recorded effects are kept${BEHIND} ${AGAIN}`;
  return `The run starts from ${start ?? "the beginning"}. Recorded effects are kept${BEHIND}`;
}

const FORGOTTEN = "The platform has removed the history of the run: the run starts from the beginning";
/** The steps that no row records. */
const AGAIN =
  "Reads are repeated and may return other values. Sleeps are repeated, unless a later step is recorded. Received events and answers are kept.";

/** Of steps that were not come to before nothing is on record. */
const BEHIND = ". Later steps run too; the code determines which.";

/** Whoever takes it up again may mean to be asked again. */
const FIRST_TIME = " Answers to questions and received events of the first run are used again: no question is asked twice.";

/**
 * What becomes of an effect in the next run. `caught`: the steps of whose failure its code is told again. A `once` effect that is claimed
 * was under way when its run ended: the next attempt parks it.
 */
export function retryVerdictOn(effect: Effect, caught: ReadonlySet<string>): RetryVerdict {
  const { state, class: effectClass, step, item } = effect;
  if (isOutputLost(effect)) return "needs_output";
  if ((state === "failed" || state === "claimed") && caught.has(labelOf(step, item))) return "caught";
  return state === "claimed" && DOUBTED.has(effectClass) ? "in_doubt" : (VERDICTS[state] ?? "runs");
}

/** An attempt of it is under way, or was when its process died: of one whose failure the code caught none is. */
export function isUnderWay({ state, step, item }: Effect, caught: ReadonlySet<string>): boolean {
  return state === "claimed" && !caught.has(labelOf(step, item));
}

/** It happened, and what it answered could not be kept. */
function isOutputLost({ state, output, outputRef, error }: Effect): boolean {
  return state === "done" && output === null && outputRef === null && error !== null;
}

const OUTPUT_LOST: ReadonlySet<string | undefined> = new Set(["output_not_serializable", "output_too_large"]);

/** A run that failed because an effect has no output fails of the same until somebody has given one. Null for any other. */
function whyAgain({ status, error }: Instance, failed: string | null, effects: readonly Effect[]): string | null {
  if (status !== "errored" || failed === null || failed !== error?.step || !OUTPUT_LOST.has(error.code)) return null;
  const lost = effects.find((effect) => isOutputLost(effect) && labelOf(effect.step, effect.item) === failed);
  if (!lost) return null;
  return `"${failed}" happened, but its output could not be stored, so the run would fail again for the same reason. Confirm its output (POST /v1/effects/${lost.key}/confirm), then retry.`;
}

const NONE: ReadonlySet<string> = new Set();

const VERDICTS: Record<string, RetryVerdict> = { done: "kept", confirmed: "kept", in_doubt: "in_doubt" };

/**
 * Retries an errored or terminated instance from the step that failed, or from another. Recorded effects are kept, whatever step it starts
 * from. One whose undo failed goes on with the undo; one that is undone starts from its beginning, and does again what was taken back. A
 * step whose failure the code caught is tried anew when the run ended with that failure, or when it is named and nothing that was done
 * depends on it; with `anyway` also where something does: what was done instead stays done. An effect whose output a person has mended
 * since is where the run goes on. Errors: `instance_not_found`, `invalid_payload` for a step that nobody recorded, `invalid_transition`
 * (audited as no change) when the instance is not stopped, when something depends on the named failure, or when the run failed of an effect
 * whose output is missing.
 */
export function retryInstance(env: EngineEnv, by: Operator, instanceId: string, options: RetryOptions): Promise<BegunRetry> {
  return retryAs(env, by, instanceId, options, { verb: "retry", window: "retry promised, not applied" });
}

/** A retry that was begun. */
export interface BegunRetry {
  readonly actionId: string;
  /** The step that the platform starts from; null for the beginning. */
  readonly from: string | null;
  /** The consequences, in a few sentences. */
  readonly follows: string;
}

interface RetryOptions {
  from?: string | undefined;
  anyway?: boolean | undefined;
  reason: string;
}

/** A retry by its own name, or under another with more that is written in its batch. */
interface RetryKind {
  readonly verb: "retry" | "skip_step";
  readonly window: PointAround;
  readonly detail?: Record<string, unknown>;
  readonly also?: (actionId: string) => Statement;
  /** Why nothing may be begun, of the instance as it was read. */
  readonly refused?: string | null;
  readonly read?: Instance;
}

/** Begins the next run of an instance as a retry does. Errors: as `retryInstance`. */
export async function retryAs(
  env: EngineEnv,
  by: Operator,
  instanceId: string,
  options: RetryOptions,
  kind: RetryKind,
): Promise<BegunRetry> {
  const instance = kind.read ?? (await getInstance(env, by, instanceId));
  const lacksOutput = OUTPUT_LOST.has(instance.error?.code);
  const recorded = options.from !== undefined || lacksOutput ? await effectsAndFree(env, by, instanceId) : [];
  await assertRecorded(env, instance, recorded, options.from);
  const { failed, start: from, isForgotten } = await beginningOf(env, instance, options.from);
  const again = kind.refused ?? whyAgain(instance, failed, recorded);
  const anyway = options.anyway === true;
  const named = mustBeFree(instance, failed, anyway);
  const wentOn = wentOnTo(await leftBehind(env, instanceId), named);
  const run = instance.run + 1;
  // Its first pass must look at what was taken back, which a pass of an instance that was created a moment ago does not.
  if (instance.undone) await scheduler.wait(Math.max(0, instance.updatedAt + FRESH_MS + 100 - Date.now()));
  // What is undone begins anew with all; an undo that goes on finds what there was by what the code had heard.
  const ended = from === undefined ? failed : (await beginningOf(env, instance, undefined)).failed;
  const told = await triedAnew(env, instance, run, isBeingUndone(instance) ? [] : [failed, ended]);
  const actionId = actionIdOf(by);
  const undone = instance.status === "terminated" && { undone: true, ...(isStopped(instance) && { stopped: true }) };
  const detail = { ...kind.detail, from, run, ...(anyway && { anyway }), ...undone, ...failedBefore(instance) };
  const changed = { before: { status: instance.status, run: instance.run }, after: { status: "running", run } };
  const action: Action = { id: actionId, verb: kind.verb, target: instanceId, instanceId, reason: options.reason, detail, ...changed };
  await actAndTell(env, by, action, {
    change: beginRetry({
      id: instanceId,
      tenantId: by.tenantId,
      run,
      left: JSON.stringify(told),
      isAnew: instance.undone,
      named,
      wentOn,
      again,
    }),
    also: {
      // An undo finds what there was by what the code had caught.
      anew:
        failed === null || isBeingUndone(instance)
          ? []
          : [forgetFailure(instanceId, failed, actionId), reopenWait(instanceId, failed, actionId)],
      more: kind.also?.(actionId) ?? [],
      told: forgetTold(instanceId, actionId),
      doubts: [leaveDoubts(instanceId, actionId), markInDoubt(instanceId)],
    },
    refused: async () => {
      // As it stands now: somebody else may have retried it since it was read.
      const now = await getInstance(env, by, instanceId);
      return { why: again ?? (await whyRefused(env, now, named, wentOn)), from: now.status, to: "running" };
    },
    window: kind.window,
  });
  return { actionId, from, follows: followsFrom(instance, from, isForgotten) };
}

/**
 * The step on whose failure nothing may depend that was done; null when none has to be free. The code that throws what it caught goes no
 * other way: done anew, that step makes nothing happen twice.
 */
function mustBeFree({ error }: Instance, failed: string | null, anyway: boolean): string | null {
  return anyway || failed === error?.step ? null : failed;
}

/** `wentOn`: what may have happened because the named step failed, though nothing recorded says so. */
async function whyRefused(env: EngineEnv, instance: Instance, named: string | null, wentOn: string | undefined): Promise<string | null> {
  const { id, status } = instance;
  const [behind] = await query<{ step: string }>(env.DB, wentOnFrom(id, named));
  const depends = behind?.step ?? wentOn;
  if (depends !== undefined) {
    return `"${named}" failed, and the code caught the failure and continued with "${depends}". A retry of "${named}" would execute both. Retry without naming a step; or undo the instance, then retry it; or, if both may happen, send "anyway": true.`;
  }
  if (RETRYABLE.has(status)) return null;
  if (status === "in_doubt") {
    return "An effect of the instance is in doubt: resolve it (GET /v1/effects?state=in_doubt lists it), then the instance continues automatically.";
  }
  return `The instance is ${status}: only an errored or terminated one can be retried. ${whatFirst(instance)}`;
}

/** What to do about an instance that cannot be retried as it is. */
function whatFirst({ id, status, undo }: Instance): string {
  if (GOING_ON.has(status) && undo !== null) return `It is being undone: ${waitForEnd(id)}, then retry it.`;
  if (GOING_ON.has(status)) return `It has not ended: ${waitForEnd(id)}, and retry it only if it has failed.`;
  if (status === "paused") return `Resume it (POST /v1/instances/${id}/resume).`;
  if (status === "complete") return "To repeat its work, undo it, then retry it.";
  if (status === "dead") return "It never started: replay its dead letter (GET /v1/dead-letters lists them).";
  return "This is final: send its command under another key.";
}

/** How somebody waits for the end of what is under way. */
export function waitForEnd(id: string): string {
  return `wait for its end (GET /v1/instances/${id}?wait=30 returns when it has ended)`;
}
