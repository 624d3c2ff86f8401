import type { EngineEnv } from "../../contract/bindings.ts";
import { MillraceError } from "../../contract/errors.ts";
import { platformId } from "../../contract/ids.ts";
import { sql } from "../../contract/sql.ts";
import { within } from "../../contract/within.ts";
import { isDoubtEvent } from "../../guard/doubt.ts";
import { wholeHistoryOf } from "../../inspect/history.ts";
import { askPlatform } from "../../intake/platform.ts";
import { query } from "../../store/d1/retry.ts";
import { lookAgain } from "../../store/instances/look.ts";
import { resumeResolved } from "../../store/instances/wait.ts";

/**
 * An instance is in doubt by its row, and no effect of it is. A run that waits for the answer is woken, and looks itself: what was answered
 * it goes on with, and an effect whose entry is gone it puts back in doubt, for a person. One that waits for no answer runs by its row
 * too. One that the platform does not know is the keeper's, which ends it: begun anew, it would do again what was in doubt. Errors:
 * `unavailable` where the platform does not say.
 */
export async function wakeFromDoubt(env: EngineEnv, instanceId: string): Promise<void> {
  const [row] = await query<{ workflow: string; undo: string | null }>(
    env.DB,
    sql`SELECT workflow, undo FROM millrace_instances WHERE id = ${instanceId} AND status = 'in_doubt'`,
  );
  if (!row) return;
  const id = platformId(instanceId, row.undo);
  const { status, instance } = await askPlatform(env, row.workflow, id);
  if (status === "unreachable") throw unsaid("The platform does not answer");
  if (instance === null) return void (await query(env.DB, lookAgain([instanceId])));
  const { steps, truncated } = await wholeHistoryOf(env, { id, workflow: row.workflow });
  const waits = steps.flatMap(({ state, eventType }) => (state === "waiting" && eventType && isDoubtEvent(eventType) ? [eventType] : []));
  if (waits.length === 0 && (truncated || steps.length === 0))
    throw unsaid("The platform does not report the event that the run waits for");
  if (waits.length === 0) return void (await query(env.DB, resumeResolved(instanceId)));
  for (const type of waits) await within(instance.sendEvent({ type, payload: {} }));
}

function unsaid(what: string): MillraceError {
  return new MillraceError("unavailable", `${what}: the keeper asks again at its next check.`);
}
