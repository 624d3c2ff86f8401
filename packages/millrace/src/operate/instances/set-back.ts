import type { EngineEnv } from "../../contract/bindings.ts";
import { codeLabelOf, ownStep } from "../../contract/step-names.ts";
import { heldSteps, partOf, type StepRecord } from "../../inspect/history.ts";
import { query } from "../../store/d1/retry.ts";
import { selectKnownSteps } from "../../store/instances/lost.ts";

/** A run on the platform that is newer than its rows, because the database was restored to an earlier time. */
export interface SetBack {
  /** Steps that the run has begun and that have no record. */
  readonly lost: readonly string[];
  readonly done: number;
}

/** Maximum clock skew in milliseconds. If a row is younger than its run by less than this time, the row may in fact be older. */
const CLOCKS_MS = 60_000;

/**
 * Compares an instance's run on the platform with its rows. Returns undefined if every complete step has a record. The platform does not
 * know inline steps, so the loss of an inline step's record is detected only by a row that is younger than its run.
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
