import type { EngineEnv } from "../contract/bindings.ts";
import type { Caught, Left } from "../guard/history.ts";
import { selectLeft } from "../recorder/caught.ts";
import { query } from "../store/retry.ts";
import type { Instance } from "./instances.ts";

/** What a run is told that an operator begins, as JSON: what the runs before it have left, but of these steps, which are tried anew. */
export async function leftTo(env: EngineEnv, id: string, run: number, anew: readonly (string | null | undefined)[]): Promise<string> {
  const left = await allLeft(env, id);
  for (const label of anew) if (label) left[label] = { open: run };
  return JSON.stringify(left);
}

/** The failure of a step as the runs have left it. */
export async function leftOf(env: EngineEnv, id: string, label: string | null): Promise<Caught | undefined> {
  const left = label === null ? undefined : (await allLeft(env, id))[label];
  return left && "open" in left ? undefined : left;
}

async function allLeft(env: EngineEnv, id: string): Promise<Record<string, Left>> {
  const [row] = await query<{ caught: string | null }>(env.DB, selectLeft(id));
  return row?.caught ? JSON.parse(row.caught) : {};
}

/** The same for an undo: it goes the way of the last run, so it is also told with what that one failed. */
export async function leftToUndo(env: EngineEnv, { id, run, error }: Instance): Promise<string> {
  const left: Record<string, Left> = JSON.parse(await leftTo(env, id, run, []));
  const label = error?.step || error?.behind;
  if (!error || !label) return JSON.stringify(left);
  const { code, message } = error;
  left[label] = code === "step_failed" ? { name: "Error", message } : { name: "MillraceError", code, message };
  return JSON.stringify(left);
}
