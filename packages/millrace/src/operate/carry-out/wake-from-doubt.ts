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
 * Continues an instance that is `in_doubt` although no effect is in doubt. A run that waits for a resolution is woken and reads the rows.
 * The run then continues, or marks an effect without an entry as in doubt again. If the run waits for no resolution, its row is set to
 * running. The keeper ends a run that is unknown to the platform, because a new run would repeat the effect. Errors: `unavailable` if the
 * platform does not answer.
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
  const waits = steps.flatMap(({ state, event_type: type }) => (state === "waiting" && type && isDoubtEvent(type) ? [type] : []));
  if (waits.length === 0 && (truncated || steps.length === 0))
    throw unsaid("The platform does not report the event that the run waits for");
  if (waits.length === 0) return void (await query(env.DB, resumeResolved(instanceId)));
  for (const type of waits) await within(instance.sendEvent({ type, payload: {} }));
}

function unsaid(what: string): MillraceError {
  return new MillraceError("unavailable", `${what}: the keeper asks again at its next check.`);
}
