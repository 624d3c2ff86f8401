import type { EngineEnv } from "../../contract/bindings.ts";
import type { Instance } from "../../inspect/instances.ts";
import { type LeftBehind, reopened } from "../../pass/caught.ts";
import type { Unrecorded } from "../../pass/failure.ts";
import { query } from "../../store/d1/retry.ts";
import { selectCaught, selectUnrecorded } from "../../store/inbox/caught.ts";
import { selectLeft } from "../../store/instances/run.ts";

type Steps = Readonly<Record<string, LeftBehind>>;

/** What the runs of an instance have left to the next, by their steps. */
export async function leftBehind(env: EngineEnv, id: string): Promise<Steps> {
  const [row] = await query<{ caught: string | null }>(env.DB, selectLeft(id));
  return row?.caught ? JSON.parse(row.caught) : {};
}

/** The steps of whose failure the code is told again, because it caught that: they are not tried anew, but those that are named here. */
export async function stillCaught(
  env: EngineEnv,
  id: string,
  anew: readonly (string | null | undefined)[] = [],
): Promise<ReadonlySet<string>> {
  const left = Object.entries(await leftBehind(env, id));
  const told = await query<{ label: string }>(env.DB, selectCaught(id));
  const caught = new Set([...told.map(({ label }) => label), ...left.map(([label]) => label)]);
  for (const [label, one] of left) if ("open" in one) caught.delete(label);
  for (const label of anew) if (label) caught.delete(label);
  return caught;
}

/**
 * What is known of effects whose steps failed and of which nothing was recorded, by their labels: of steps whose failure the code caught,
 * of the one that the last run ended with, and of those that a run before had tried.
 */
export async function unrecorded(env: EngineEnv, { id, undo, error }: Instance): Promise<ReadonlyMap<string, Unrecorded>> {
  const [left, told] = await Promise.all([leftBehind(env, id), query<{ label: string; effect: Unrecorded }>(env.DB, selectUnrecorded(id))]);
  const known = new Map(told.map(({ label, effect }) => [label, effect]));
  for (const [label, one] of Object.entries(left)) if (one.effect) known.set(label, one.effect);
  const label = undo === null && (error?.step || error?.behind);
  // Where nobody said what it does, it may have done something.
  if (label && error && error.effect !== "none") known.set(label, error.effect ?? "unknown");
  return known;
}

/** Effects whose failure the code is told again, as `stillCaught` says, and of which nothing was recorded: in a plan. */
export async function caughtWithoutRecord(env: EngineEnv, instance: Instance, caught: ReadonlySet<string>) {
  const known = await unrecorded(env, instance);
  return new Map([...known.keys()].filter((label) => caught.has(label)).map((label) => [label, "caught"] as const));
}

/** The effect that may have happened because this step failed, also where nothing is recorded of it. */
export function wentOnTo(left: Steps, label: string | null): string | undefined {
  const failure = label === null ? undefined : left[label];
  return failure && !("open" in failure) ? failure.wentOn : undefined;
}

/** What a run is told besides, in which these steps are tried anew, with what may stand of their tries so far. */
export async function triedAnew(env: EngineEnv, instance: Instance, run: number, labels: readonly (string | null)[]): Promise<Steps> {
  const known = await unrecorded(env, instance);
  return Object.fromEntries(labels.flatMap((label) => (label ? [[label, reopened(run, known.get(label))]] : [])));
}

/**
 * What an undo is told besides: it goes the way of the last run, and so hears with what that one failed. Where that was no effect, and a
 * run before came farther, to an effect that may stand, the step is taken once more: the undo has to come by that effect.
 */
export async function itsEnd(env: EngineEnv, { id, error }: Instance, run: number): Promise<Steps> {
  const label = error?.step || error?.behind;
  if (!error || !label) return {};
  const left = error.effect === "none" ? Object.values(await leftBehind(env, id)) : [];
  if (left.some((one) => "open" in one && one.effect === "undoable")) return { [label]: reopened(run, undefined) };
  const { code, message, effect } = error;
  const known = effect !== undefined && effect !== "none" && { effect };
  return { [label]: { ...(code === "step_failed" ? { name: "Error", message } : { name: "MillraceError", code, message }), ...known } };
}
