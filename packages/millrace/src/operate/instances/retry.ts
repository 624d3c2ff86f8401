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

/** Result of a dry run of a retry. */
export interface RetryPlan {
  from: string | null;
  /** The reason for a refusal; null if the retry would be accepted. */
  refused: string | null;
  /** The consequences, as a sentence. */
  follows: string;
  /** The operator-supplied output that the retry keeps, and how to replace it. Null if there is none. */
  note: string | null;
  /** If the instance's undo has failed: the remaining effects, with the verdicts of an undo. */
  effects: { step: string; item: string; verdict: RetryVerdict | UndoVerdict }[];
}

const VERDICTS_OF_RETRY = ["kept", "runs", "caught", "in_doubt", "needs_output"] as const;

type RetryVerdict = (typeof VERDICTS_OF_RETRY)[number];

export const RETRY_VERDICTS = [...VERDICTS_OF_RETRY, ...UNDO_VERDICTS.filter((verdict) => verdict !== "in_doubt")];

/** Dry run of a retry. Errors: `instance_not_found`; `invalid_payload` for a step without a record. */
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
  // A step that failed before its first record has no entry; it is the step that runs.
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
const AGAIN =
  "Reads are repeated and may return other values. Sleeps are repeated, unless a later step is recorded. Received events and answers are kept.";

const BEHIND = ". Later steps run too; the code determines which.";

const FIRST_TIME = " Answers to questions and received events of the first run are used again: no question is asked twice.";

/**
 * The result of the next run for an effect. `caught`: labels of steps that report their failure again. A claimed `once` effect was running
 * when its run ended: the next attempt marks it as in doubt.
 */
export function retryVerdictOn(effect: Effect, caught: ReadonlySet<string>): RetryVerdict {
  const { state, class: effectClass, step, item } = effect;
  if (isOutputLost(effect)) return "needs_output";
  if ((state === "failed" || state === "claimed") && caught.has(labelOf(step, item))) return "caught";
  return state === "claimed" && DOUBTED.has(effectClass) ? "in_doubt" : (VERDICTS[state] ?? "runs");
}

/** True if an attempt is running, or was when its process died. A caught failure has no running attempt. */
export function isUnderWay({ state, step, item }: Effect, caught: ReadonlySet<string>): boolean {
  return state === "claimed" && !caught.has(labelOf(step, item));
}

function isOutputLost({ state, output, outputRef, error }: Effect): boolean {
  return state === "done" && output === null && outputRef === null && error !== null;
}

const OUTPUT_LOST: ReadonlySet<string | undefined> = new Set(["output_not_serializable", "output_too_large"]);

/** The refusal of a retry that would fail again, because the output of an effect is missing. Null otherwise. */
function whyAgain({ status, error }: Instance, failed: string | null, effects: readonly Effect[]): string | null {
  if (status !== "errored" || failed === null || failed !== error?.step || !OUTPUT_LOST.has(error.code)) return null;
  const lost = effects.find((effect) => isOutputLost(effect) && labelOf(effect.step, effect.item) === failed);
  if (!lost) return null;
  return `"${failed}" happened, but its output could not be stored, so the run would fail again for the same reason. Confirm its output (POST /v1/effects/${lost.key}/confirm), then retry.`;
}

const NONE: ReadonlySet<string> = new Set();

const VERDICTS: Record<string, RetryVerdict> = { done: "kept", confirmed: "kept", in_doubt: "in_doubt" };

/**
 * Retries an errored or terminated instance, from the failed step or from the named one. Recorded effects are kept. If an operator replaced
 * the output of an effect since, the run starts from that effect. After a failed undo, a retry continues the undo. An undone instance
 * starts from the beginning and repeats its effects.
 *
 * A caught failure is cleared if the run ended with it. It is also cleared if its step is named and no recorded effect depends on the
 * failure. With `anyway` such an effect is accepted, and remains.
 *
 * Errors: `instance_not_found`; `invalid_payload` for a step without a record; `invalid_transition` (audited as no change) if the instance
 * is not errored or terminated, an effect depends on the named failure, or the failed effect has no output.
 */
export function retryInstance(env: EngineEnv, by: Operator, instanceId: string, options: RetryOptions): Promise<BegunRetry> {
  return retryAs(env, by, instanceId, options, { verb: "retry", window: "retry promised, not applied" });
}

export interface BegunRetry {
  readonly actionId: string;
  /** The step from which the platform restarts; null for the beginning. */
  readonly from: string | null;
  /** The consequences, as sentences. */
  readonly follows: string;
}

interface RetryOptions {
  from?: string | undefined;
  anyway?: boolean | undefined;
  reason: string;
}

/** A retry, or another verb that begins a run and writes more in the same batch. */
interface RetryKind {
  readonly verb: "retry" | "skip_step";
  readonly window: PointAround;
  readonly detail?: Record<string, unknown>;
  readonly also?: (actionId: string) => Statement;
  readonly refused?: string | null;
  readonly read?: Instance;
}

/** Begins the next run of an instance. Errors: as `retryInstance`. */
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
  // The first replay must read the undone effects. A replay within `FRESH_MS` of the creation does not read them.
  if (instance.undone) await scheduler.wait(Math.max(0, instance.updatedAt + FRESH_MS + 100 - Date.now()));
  // An undone instance repeats every step. A continued undo needs the caught failures.
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
      // An undo needs the caught failures.
      anew:
        failed === null || isBeingUndone(instance)
          ? []
          : [forgetFailure(instanceId, failed, actionId), reopenWait(instanceId, failed, actionId)],
      more: kind.also?.(actionId) ?? [],
      told: forgetTold(instanceId, actionId),
      doubts: [leaveDoubts(instanceId, actionId), markInDoubt(instanceId)],
    },
    refused: async () => {
      // Read again: a concurrent action may have retried it.
      const now = await getInstance(env, by, instanceId);
      return { why: again ?? (await whyRefused(env, now, named, wentOn)), from: now.status, to: "running" };
    },
    window: kind.window,
  });
  return { actionId, from, follows: followsFrom(instance, from, isForgotten) };
}

/**
 * The step with a failure on which no recorded effect may depend; null if there is no such condition. Code that throws the caught failure
 * takes no other branch, so a new try of that step repeats no effect.
 */
function mustBeFree({ error }: Instance, failed: string | null, anyway: boolean): string | null {
  return anyway || failed === error?.step ? null : failed;
}

/** `wentOn`: an effect that may have happened because the named step failed, and that has no record. */
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

function whatFirst({ id, status, undo }: Instance): string {
  if (GOING_ON.has(status) && undo !== null) return `It is being undone: ${waitForEnd(id)}, then retry it.`;
  if (GOING_ON.has(status)) return `It has not ended: ${waitForEnd(id)}, and retry it only if it has failed.`;
  if (status === "paused") return `Resume it (POST /v1/instances/${id}/resume).`;
  if (status === "complete") return "To repeat its work, undo it, then retry it.";
  if (status === "dead") return "It never started: replay its dead letter (GET /v1/dead-letters lists them).";
  return "This is final: send its command under another key.";
}

export function waitForEnd(id: string): string {
  return `wait for its end (GET /v1/instances/${id}?wait=30 returns when it has ended)`;
}
