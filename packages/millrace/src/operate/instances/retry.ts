import * as z from "zod";
import type { EngineEnv } from "../../contract/bindings.ts";
import { MillraceError } from "../../contract/errors.ts";
import { platformId } from "../../contract/ids.ts";
import type { PlanVerdict } from "../../contract/plan-verdicts.ts";
import { type Statement, sql } from "../../contract/sql.ts";
import { codeLabelOf, labelOf } from "../../contract/step-names.ts";
import { shortened } from "../../contract/text.ts";
import { type Effect, effectsAndFree } from "../../inspect/effects.ts";
import { wholeHistoryOf } from "../../inspect/history.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import { askPlatform } from "../../intake/platform.ts";
import { FRESH_MS } from "../../replay/fresh.ts";
import type { Part } from "../../store/d1/named.ts";
import { query } from "../../store/d1/retry.ts";
import { DOUBTED } from "../../store/inbox/classes.ts";
import { leaveDoubts } from "../../store/inbox/doubts.ts";
import { SKIPPED } from "../../store/inbox/outcome.ts";
import { beginRetry } from "../../store/instances/run.ts";
import { GOING_ON, RETRYABLE } from "../../store/instances/status.ts";
import { markInDoubt } from "../../store/instances/wait.ts";
import { REMEMBERED_DAYS } from "../../store/kept-days.ts";
import { forgetTold, reopenWait } from "../../store/waits.ts";
import type { BulkCall } from "../../topology/define-bulk-verb.ts";
import { type Call, type Change, instanceAct } from "./act.ts";
import { failedBefore, findSetBack, type Past, pastOf, storedForRetry } from "./past.ts";
import { type ActionPlan, planEffects, withLost } from "./plan.ts";
import { undoEffects } from "./undo.ts";

/**
 * A caught failure is cleared if the run ended with the failure, or if the retry names the failed step and no recorded effect depends on
 * the failure. With `force`, the failure is cleared although a recorded effect depends on the failure, and the effect remains. Errors:
 * `invalid_payload` for a step without a record.
 */
export const retry = instanceAct({
  verb: "retry",
  path: "retry",
  summary: "Retry an errored or terminated instance",
  description:
    "Recorded effects are kept for every start step. A dry run lists the effects that would run and the effects in doubt. After a failed undo, the retry continues the undo; its dry run lists the same verdicts as `POST /v1/instances/{id}/undo`.",
  accepted: "It runs again",
  body: {
    from: z.string().min(1).max(256).optional().meta({ description: "The step to start at. Default: the failed one." }),
    force: z.boolean().default(false).meta({
      description: "Retries the step of `from` even if the code caught its failure and continued. The effects of that continuation remain.",
    }),
  },
  answer: {
    from: z.string().nullable().meta({ description: "The step it starts at; null for the beginning." }),
    consequence: z.string().meta({
      description: "The consequences, in a few sentences. If the platform has removed the run, they name the repeated steps.",
    }),
  },
  read: ({ given, ...call }) => readRun(call, given),
  refused: async ({ env, instance }, { again, named }) => again ?? (await whyRefused(env, instance, named)),
  async plan(call, { recorded, failed, start, isForgotten }) {
    const { env, by, instance } = call;
    const plan = { from: start, consequence: consequenceFrom(instance, start, isForgotten), note: noteOnGiven(recorded) };
    if (instance.undo === "open") return { ...plan, effects: await undoEffects(env, by, instance) };
    const effects = await planRun(call, { recorded, cleared: [failed, instance.error?.step], start });
    return withLost({ ...plan, effects }, isForgotten ? undefined : await findSetBack(env, instance));
  },
  async change(call, read) {
    const { instance } = call;
    const { start: from, isForgotten } = read;
    return {
      ...(await nextRun(call, read)),
      window: "retry committed, not applied",
      done: () => ({ from, consequence: consequenceFrom(instance, from, isForgotten) }),
    };
  },
  bulk: { from: RETRYABLE.values, usual: "errored", runs: true, consequence: doneAgain },
});

type At = Pick<Call<unknown>, "env" | "by" | "instance">;

/**
 * Reads the state from which a retry begins the next run of an instance. `from`: the step that the operator named. `named`: a step, on
 * whose failure the records may not depend; null if the retry needs no such check.
 */
export async function readRun(
  { env, by, instance }: At,
  { from, force = false }: { from?: string | undefined; force?: boolean | undefined },
) {
  const [recorded, past] = await Promise.all([effectsAndFree(env, by, instance.id), pastOf(env, instance)]);
  await assertRecorded(env, instance, recorded, past, from);
  const beginning = await beginningOf(env, instance, past, from);
  // If the code threw the failure that it had caught, no effect depends on the failure, so a new try of the step repeats no effect.
  const named = force || beginning.failed === instance.error?.step ? null : beginning.failed;
  return { ...beginning, from, force, recorded, past, named, again: whyAgain(instance, beginning.failed, recorded) };
}

/** The change that begins the next run of an instance. The statements `more` follow the audit row. */
export async function nextRun(
  { env, instance, actionId, next }: Change<unknown>,
  { from: asked, force, failed, start: from, past, named, again }: Awaited<ReturnType<typeof readRun>>,
  more: Part = [],
) {
  const { id, status } = instance;
  const { run } = next;
  // The first replay must read the undone effects. A replay within `FRESH_MS` of the instance's creation does not read recorded effects.
  if (instance.undo === "done") await scheduler.wait(Math.max(0, Date.parse(instance.updated_at) + FRESH_MS + 100 - Date.now()));
  // An undone instance repeats every step. If an undo continues, its replay needs the failures that the code of the workflow caught.
  const ended = asked === undefined ? failed : (await beginningOf(env, instance, past, undefined)).failed;
  const left = instance.undo === "open" ? "{}" : storedForRetry(past, run, failed, ended);
  const isFutile = again !== null || past.history.wentOnFrom(named) !== undefined;
  const readAt = named === null ? null : past.readAt;
  const undone = status === "terminated" && { undone: true, ...(instance.undo === null && { stopped: true }) };
  return {
    change: isFutile ? null : beginRetry({ ...next, left, isAnew: instance.undo === "done", readAt }),
    also: {
      // An undo needs the caught failures.
      reopened: failed === null || instance.undo === "open" ? [] : [reopenWait(id, failed, actionId)],
      more,
      told: forgetTold(id, actionId),
      doubts: [leaveDoubts(id, actionId), markInDoubt(id)],
    },
    detail: { from, run, ...(force && { force }), ...undone, ...failedBefore(instance) },
    before: { status, run: instance.run },
    after: { status: "running", run },
  };
}

function consequenceFrom(instance: Instance, start: string | null, isForgotten: boolean): string {
  if (instance.undo === "open") return isForgotten ? `${FORGOTTEN}. ${AGAIN}` : "The undo continues at the step that failed.";
  if (instance.undo === "done")
    return `The instance starts from the beginning and repeats the effects that were undone${BEHIND}${FIRST_TIME}`;
  if (isForgotten) return `${FORGOTTEN}. Recorded effects are kept${BEHIND} ${AGAIN}`;
  return `The run starts from ${start ?? "the beginning"}. Recorded effects are kept${BEHIND}`;
}

const FORGOTTEN = "The platform has removed the history of the run: the run starts from the beginning";
const AGAIN =
  "Reads are repeated and may return other values. Sleeps are repeated, unless a later step is recorded. Received events and answers are kept.";

const BEHIND = ". Later steps run too; the code determines which.";

const FIRST_TIME = " Answers to questions and received events of the first run are used again: no question is asked twice.";

interface Run {
  /** The recorded effects of a run that has ended. Default: reads them, and the open steps on the platform. */
  readonly recorded?: readonly Effect[];
  /** Steps whose failure is cleared. */
  readonly cleared?: readonly (string | null | undefined)[];
  /** True if running attempts are recorded first. */
  readonly isGoingOn?: boolean;
  /** The step at which the run starts. The step may have no entry, if it failed before its first record. */
  readonly start?: string | null | undefined;
  /** The verdict on a step that is executed. Default: `runs`. */
  readonly runs?: "runs" | "held";
}

/** The effects of a run that begins or continues, with their verdicts. */
export async function planRun(
  { env, by, instance }: At,
  { recorded, cleared = [], isGoingOn = false, start, runs = "runs" }: Run,
): Promise<ActionPlan["effects"]> {
  const past = await pastOf(env, instance);
  const caught = new Set([...past.caught].filter((label) => !cleared.includes(label)));
  const effects = await planEffects(env, by, instance, {
    effects: recorded,
    failed: new Map([...past.unrecorded.keys()].map((label) => [label, caught.has(label) ? "caught" : runs])),
    recorded(effect) {
      const verdict = retryVerdictOn(effect, caught);
      if (isGoingOn && effect.state === "claimed" && verdict !== "caught") return "under_way";
      return verdict === "runs" ? runs : verdict;
    },
    unrecorded: recorded ? undefined : (state) => (isGoingOn && state === "running" ? "under_way" : runs),
  });
  const isListed = !start || effects.some(({ step, item }) => labelOf(step, item) === start);
  return isListed ? effects : [...effects, { step: start, item: "", verdict: runs }];
}

/**
 * The result of the next run for an effect. `caught` contains the labels of steps that report their failure again. A claimed `once` effect
 * was running when its run ended, so the next attempt marks the effect as in doubt.
 */
function retryVerdictOn(effect: Effect, caught: ReadonlySet<string>): PlanVerdict {
  const { state, class: effectClass, step, item } = effect;
  if (isOutputLost(effect)) return "needs_output";
  if ((state === "failed" || state === "claimed") && caught.has(labelOf(step, item))) return "caught";
  if (state === "in_doubt" || (state === "claimed" && DOUBTED.has(effectClass))) return "in_doubt";
  return state === "done" || state === "confirmed" ? "kept" : "runs";
}

function isOutputLost({ state, output, output_ref, error }: Effect): boolean {
  return state === "done" && output === null && output_ref === null && error !== null;
}

const OUTPUT_LOST: readonly string[] = ["output_not_serializable", "output_too_large"];

/** The run would fail again because the output of an effect is missing. */
function whyAgain({ status, error }: Instance, failed: string | null, effects: readonly Effect[]): string | null {
  if (status !== "errored" || failed === null || failed !== error?.step || !OUTPUT_LOST.includes(error.code)) return null;
  const lost = effects.find((effect) => isOutputLost(effect) && labelOf(effect.step, effect.item) === failed);
  if (!lost) return null;
  return `"${failed}" happened, but its output could not be stored, so the run would fail again for the same reason. Confirm its output (POST /v1/effects/${lost.key}/confirm), then retry.`;
}

async function whyRefused(env: EngineEnv, instance: Instance, named: string | null): Promise<string | null> {
  const { status } = instance;
  const depends = named === null ? undefined : (await pastOf(env, instance)).history.wentOnFrom(named);
  if (depends !== undefined) {
    return `"${named}" failed, and the code caught the failure and continued with "${depends}". A retry of "${named}" would execute both. Retry without naming a step; or undo the instance, then retry it; or, if both may happen, send "force": true.`;
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

/** The count of undone items, because the retry of an undone instance repeats all its effects; null without undone items. */
async function doneAgain({ env, by }: BulkCall, members: Statement): Promise<string | null> {
  const [{ undone } = { undone: 0 }] = await query<{ undone: number }>(
    env.DB,
    sql`
      SELECT count(*) AS undone FROM (${members}) t JOIN millrace_instances i ON i.id = t.id
      WHERE i.tenant_id = ${by.tenantId} AND i.undone = 1`,
  );
  if (undone === 0) return null;
  return `Undone instances among these: ${undone}. Each starts from the beginning and repeats the effects that were undone. Answers and events of the first run are used again: no question is asked twice.`;
}

/**
 * Finds the step from which a retry starts (`start`), null for the beginning. An undone instance starts from the beginning, because the
 * platform has cached the results of undone steps. If an operator replaced an output since the run ended, the retry starts from that
 * effect, because the platform has cached the output before the replacement. `failed`: the named step, or the step that ended the run; its
 * failure is cleared. `isForgotten`: the platform has removed the run, so `start` is null.
 */
export async function beginningOf(env: EngineEnv, instance: Instance, past: Past, from: string | undefined) {
  if (instance.undo === "done") return { failed: null, start: null, isForgotten: false };
  const failed = from ?? (instance.error?.step || lastFailed(instance, past));
  const [replaced] = await query<{ step: string; item: string }>(
    env.DB,
    sql`
      SELECT step, item FROM millrace_inbox
      WHERE instance_id = ${instance.id} AND state = 'done' AND token IN ('operator', ${SKIPPED}) AND position >= 0
        AND updated_at >= ${Date.parse(instance.updated_at)}
      ORDER BY position LIMIT 1`,
  );
  const start = from === undefined && replaced ? labelOf(replaced.step, replaced.item) : failed;
  const isForgotten = start !== null && (await isForgottenBy(env, instance));
  return { failed, start: isForgotten ? null : start, isForgotten };
}

/** True without a call for a run that failed more than 30 days ago. False if the platform does not answer. */
async function isForgottenBy(env: EngineEnv, { id, workflow, undo_action, updated_at }: Instance): Promise<boolean> {
  if (Date.now() - Date.parse(updated_at) > REMEMBERED_DAYS * 86_400_000) return true;
  return (await askPlatform(env, workflow, platformId(id, undo_action))).status === "unknown";
}

/** The step that failed last before the code threw an error of its own; null if a recorded effect depends on this failure. */
function lastFailed({ error }: Instance, { history }: Past): string | null {
  const behind = error?.behind;
  return behind === undefined || history.wentOnFrom(behind) !== undefined ? null : behind;
}

/** The platform would start a step without a record from the beginning. Errors: `invalid_payload`, with the known names. */
async function assertRecorded(
  env: EngineEnv,
  instance: Instance,
  effects: readonly Effect[],
  { stored }: Past,
  from: string | undefined,
): Promise<void> {
  // A caught failure may have no other record than its entry in `stored`.
  const labels = [...effects.map(({ step, item }) => labelOf(step, item)), ...Object.keys(stored)];
  const own = [...labels, instance.error?.step, instance.error?.behind].filter(Boolean);
  if (from === undefined || own.includes(from)) return;
  // A read has a record only on the platform.
  const { steps, truncated } = await wholeHistoryOf(env, instance);
  const names = [...new Set([...steps.map(codeLabelOf), ...own])];
  if (truncated || names.includes(from)) return;
  const known = shortened(names.map((name) => `"${name}"`).join(", ") || "none", 1000);
  throw new MillraceError(
    "invalid_payload",
    `The instance has recorded no step "${shortened(from, 100)}" to start from. It has: ${known}.`,
    { issues: [{ path: "from", message: "must be a step that the instance has recorded" }] },
  );
}

/** About the last output that an operator gave and that a retry keeps. */
function noteOnGiven(effects: readonly Effect[]): string | null {
  const effect = effects.findLast(({ given, undo }) => given && undo !== "undo_step");
  if (effect === undefined) return null;
  return `A retry keeps the output that an operator gave for "${labelOf(effect.step, effect.item)}". If that output made the run fail, confirm the correct one (POST /v1/effects/${effect.key}/confirm), then retry.`;
}
