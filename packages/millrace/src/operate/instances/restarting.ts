import type { EngineEnv } from "../../contract/bindings.ts";
import { sql } from "../../contract/sql.ts";
import type { Instance } from "../../inspect/instances.ts";
import { query } from "../../store/d1/retry.ts";
import { IS_BEING_RESTARTED } from "../../store/instances/restarted.ts";

/**
 * The reason for a refusal of pause, resume and restart while an instance is being restarted; null otherwise. The instance is paused while
 * its former run ends. A resume would let that run begin another step, and the restart resumes the instance itself.
 */
export async function whyRestarting(env: EngineEnv, { id, status }: Instance): Promise<string | null> {
  if (status !== "paused") return null;
  const rows = await query(env.DB, sql`SELECT 1 FROM millrace_instances WHERE id = ${id} AND ${IS_BEING_RESTARTED}`);
  if (rows.length === 0) return null;
  return "The instance is being restarted: it continues automatically as soon as no attempt is running. To stop it instead, cancel it.";
}
