import type { EngineEnv } from "../../contract/bindings.ts";
import { sql } from "../../contract/sql.ts";
import { codeLabelOf, ownStep } from "../../contract/step-names.ts";
import { heldSteps, partOf, type StepRecord } from "../../inspect/history.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import { type LeftBehind, reopened } from "../../replay/caught.ts";
import type { Failure, Unrecorded } from "../../replay/failure.ts";
import { History } from "../../replay/history.ts";
import { namedBatch } from "../../store/d1/named.ts";
import { query } from "../../store/d1/retry.ts";
import type { Seen } from "../../store/inbox/entry.ts";
import { hasDoubt, selectEntries } from "../../store/inbox/read.ts";
import { selectKnownSteps } from "../../store/instances/look.ts";
import { selectLeft } from "../../store/instances/run.ts";
import { WAITS_FOR_SLOT } from "../../store/instances/status.ts";
import { IS_BEING_RESTARTED } from "../../store/instances/stop.ts";
import { pauseOf } from "../../store/pauses.ts";

/** The unrecorded results of an instance's earlier runs. The next replay of the instance depends on these results. */
export interface Past {
  readonly history: History;
  /** The state that earlier runs stored for later replays, by step label. */
  readonly stored: Readonly<Record<string, LeftBehind>>;
  /** Steps with a failure that the code caught. The next run reports the same failure instead of trying the step again. */
  readonly caught: ReadonlySet<string>;
  /**
   * Effects of failed steps without a recorded outcome, by step label. A step is listed if the code caught its failure, if it ended the
   * last run, or if an earlier run tried it.
   */
  readonly unrecorded: ReadonlyMap<string, Unrecorded>;
  /** The status of the failed step's effect; undefined if the failure does not state it. */
  readonly effect: Failure["effect"];
  /** The position after the last record. */
  readonly upTo: number;
  /** The database's time of the read. */
  readonly readAt: number;
}

export async function pastOf({ DB }: EngineEnv, { id, undo, run, error }: Instance): Promise<Past> {
  const rows = await namedBatch(DB, { entries: selectEntries(id), state: selectLeft(id) });
  const entries = rows.entries as unknown as Seen[];
  const [row] = rows.state as unknown as [{ caught: string | null; effect: Failure["effect"] | null; read_at: number }];
  const stored: Past["stored"] = JSON.parse(row.caught ?? "{}");
  const history = new History(entries, stored);
  // The retry of an undone instance forgets the failures on which no remaining effect depends (see `beginRetry`).
  const cleared = Object.entries(stored).flatMap(([label, { upTo }]) =>
    upTo === undefined ? [] : [[label, { open: run, upTo }] as const],
  );
  const next = undo === "done" ? new History(entries, Object.fromEntries(cleared)) : history;
  const caught = new Set([...next.failures.keys()].filter((label) => next.openSince(label) === undefined));
  const unrecorded = new Map<string, Unrecorded>();
  for (const [label, one] of [...history.failures, ...Object.entries(stored)]) if (one.effect) unrecorded.set(label, one.effect);
  const label = undo === null && (error?.step || error?.behind);
  const effect = row.effect ?? undefined;
  // If the failure does not state the effect's status, the step may have had an effect.
  if (label && effect !== "none") unrecorded.set(label, effect ?? "unknown");
  const upTo = entries.reduce((most, { position }) => Math.max(most, position + 1), 0);
  return { history, stored, caught, unrecorded, effect, upTo, readAt: row.read_at };
}

/** The state to store for the next run, which tries these steps again. It has their possible effects so far, and no failure of `failed`. */
export function storedForRetry({ unrecorded, upTo }: Past, run: number, failed: string | null, ended: string | null): string {
  const entry = (label: string | null, more: object) => (label ? { [label]: { ...reopened(run, unrecorded.get(label)), ...more } } : {});
  return JSON.stringify({ ...entry(ended, {}), ...entry(failed, { upTo }) });
}

/**
 * The state to store for an undo: the failure of the last run. An undo replays the last run, so the step fails in the same way. The step is
 * executed again if it had no effect, and if an earlier run reached a later effect that can be undone. Then the undo reaches the later
 * effect.
 */
export function storedForUndo({ stored, effect }: Past, { error }: Instance, run: number): string {
  const label = error?.step || error?.behind;
  if (!error || !label) return "{}";
  const reaches = effect === "none" && Object.values(stored).some((one) => "open" in one && one.effect === "undoable");
  const { code, message } = error;
  const known = effect !== undefined && effect !== "none" && { effect };
  const failure = code === "step_failed" ? { name: "Error", message } : { name: "MillraceError", code, message };
  return JSON.stringify({ [label]: reaches ? reopened(run, undefined) : { ...failure, ...known } });
}

/** The failure of the former run, for the audit's `detail`, without the messages of upstreams. The next run clears the failure. */
export function failedBefore({ status, error }: Pick<Instance, "status" | "error">): { failed?: Record<string, unknown> } {
  if (status !== "errored" || error === null) return {};
  const { step, behind, code, attempts, upstream_status } = error;
  const upstream = upstream_status !== undefined && { upstream_status };
  return { failed: { step: step || (behind ?? ""), code, attempts, ...upstream } };
}

export interface InstanceMessage {
  /** Null for an instance that an event started. */
  readonly queue: string | null;
  readonly envelope: string;
  /** 1 while the command waits for a slot of its workflow's `concurrency`. */
  readonly waits: number;
  /** 1 if its workflow or its queue is paused. */
  readonly is_stopped: number;
}

export async function messageOfInstance(env: EngineEnv, id: string): Promise<InstanceMessage> {
  const [row] = await query<InstanceMessage>(
    env.DB,
    sql`
      SELECT queue, envelope, ${WAITS_FOR_SLOT} AS waits, ${pauseOf("1")} IS NOT NULL AS is_stopped FROM millrace_instances
      WHERE id = ${id}`,
  );
  return row ?? { queue: null, envelope: "{}", waits: 0, is_stopped: 0 };
}

export async function whyInDoubt(env: EngineEnv, id: string): Promise<string | null> {
  const doubts = await query(env.DB, sql`SELECT 1 WHERE ${hasDoubt(id)}`);
  if (doubts.length === 0) return null;
  return "An effect of the instance is in doubt: resolve it first. List those with GET /v1/effects?state=in_doubt.";
}

/**
 * The instance is paused while its former run ends. A resume would let the former run begin another step, and the restart itself resumes
 * the instance.
 */
export async function whyRestarting(env: EngineEnv, { id, status }: Instance): Promise<string | null> {
  if (status !== "paused") return null;
  const rows = await query(env.DB, sql`SELECT 1 FROM millrace_instances WHERE id = ${id} AND ${IS_BEING_RESTARTED}`);
  if (rows.length === 0) return null;
  return "The instance is being restarted: it continues automatically as soon as no attempt is running. To stop it instead, cancel it.";
}

/** A run on the platform that is newer than its rows, because the database was restored to an earlier time. */
export interface SetBack {
  /** Steps that the run has begun and that have no record. */
  readonly lost: readonly string[];
  readonly done: number;
}

/** Maximum clock skew in milliseconds. If a row is younger than its run by less than this time, the row may in fact be older. */
const CLOCKS_MS = 60_000;

/**
 * Undefined if every complete step has a record. The platform does not know inline steps, so the loss of an inline step's record is
 * detected only by a row that is younger than its run.
 */
export async function findSetBack(env: EngineEnv, { id, workflow }: { id: string; workflow: string }): Promise<SetBack | undefined> {
  const [{ startedAt, steps }, rows] = await Promise.all([
    partOf(env, workflow, id),
    query<{ label: string | null; accepted_at: number | null }>(env.DB, selectKnownSteps(id)),
  ]);
  const acceptedAt = rows.find(({ label }) => label === null)?.accepted_at;
  if (typeof acceptedAt !== "number") return undefined;
  const known = new Set(rows.map(({ label }) => label));
  const last = new Map(steps.filter(leavesRecord).map((step) => [codeLabelOf(step), step]));
  const unknown = [...last].filter(([label]) => !known.has(label));
  const held = unknown.length > 0 ? await heldSteps(env, workflow, id) : new Set<string>();
  const lost = unknown.filter(([, { name, count }]) => !held.has(`${name}-${count}`));
  const done = lost.filter(([, { type, state }]) => type === "waitForEvent" || state === "complete").length;
  const isBehind = done > 0 || (startedAt ?? acceptedAt) < acceptedAt - CLOCKS_MS;
  return isBehind ? { lost: lost.map(([label]) => label), done } : undefined;
}

function leavesRecord(step: StepRecord): boolean {
  const part = ownStep(step)?.part;
  if (step.type === "waitForEvent") return part === "signal" || part === "answer";
  return step.type === "do" && !step.reads && step.attempts.length > 0 && part !== "read_again" && part !== "version";
}
