import type { EngineEnv } from "../contract/bindings.ts";
import type { Left } from "../guard/history.ts";
import { selectLeft } from "../recorder/caught.ts";
import { query } from "../store/retry.ts";

/** What a run is told that an operator begins, as JSON: what the runs before it have left, but of these steps, which are tried anew. */
export async function leftTo(env: EngineEnv, id: string, run: number, anew: readonly (string | null | undefined)[]): Promise<string> {
  const [row] = await query<{ caught: string | null }>(env.DB, selectLeft(id));
  const left: Record<string, Left> = row?.caught ? JSON.parse(row.caught) : {};
  for (const label of anew) if (label) left[label] = { open: run };
  return JSON.stringify(left);
}
