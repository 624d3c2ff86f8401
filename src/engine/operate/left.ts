import type { EngineEnv } from "../contract/bindings.ts";
import type { Left } from "../guard/history.ts";
import { selectLeftBefore } from "../recorder/caught.ts";
import { query } from "../store/retry.ts";
import type { Instance } from "./instances.ts";

/**
 * What the runs of an instance leave to the next one, as JSON; null for nothing. `anew`: the step that is tried anew, of which nothing is left.
 * The last run knows only of what its code came by: what it had been told itself holds for all other steps.
 */
export async function leftTo(env: EngineEnv, { id, error }: Instance, run: number, anew?: string | null): Promise<string | null> {
  const [row] = await query<{ caught: string | null }>(env.DB, selectLeftBefore(id));
  const before: Record<string, Left> = row?.caught ? JSON.parse(row.caught) : {};
  const open = Object.fromEntries((error?.unheard ?? []).map((label) => [label, { open: run }]));
  const { [anew ?? ""]: _, ...left } = { ...before, ...error?.caught, ...open };
  return Object.keys(left).length > 0 ? JSON.stringify(left) : null;
}
