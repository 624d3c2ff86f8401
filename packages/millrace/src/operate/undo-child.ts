import type { EngineEnv } from "../contract/bindings.ts";
import type { UndoneChild } from "../contract/keeper-stub.ts";
import { sql } from "../contract/sql.ts";
import { query } from "../store/d1/retry.ts";
import { selectChild } from "../store/instances/children.ts";
import { selectToTakeBack } from "../store/instances/run.ts";
import { type InstanceStatus, UNDER_WAY } from "../store/instances/status.ts";
import { applyAction } from "./carry-out/carry-out.ts";
import { actOn } from "./instances/acts.ts";

/**
 * Cancels or undoes a child for the undo of its parent, as the operator of the parent's undo, and carries out an earlier cancel. Returns
 * "nothing" for an ended child without an effect to undo. Errors: `invalid_transition`, for example for an ended child with an unknown
 * outcome.
 */
export async function undoChild(env: EngineEnv, { tenantId, parent, undo, child }: UndoneChild): Promise<"begun" | "nothing"> {
  const [row] = await query<{ status: InstanceStatus; undo: string | null }>(env.DB, selectChild(tenantId, child));
  if (row?.undo) {
    await applyAction(env, row.undo);
    return "begun";
  }
  const goesOn = row !== undefined && UNDER_WAY.has(row.status);
  if (!goesOn && (await query(env.DB, selectToTakeBack(tenantId, child))).length === 0) return "nothing";
  const [action] = await query<{ actor: string; reason: string }>(
    env.DB,
    sql`SELECT actor, reason FROM millrace_actions WHERE id = ${undo}`,
  );
  const by = { tenantId, actor: action?.actor ?? "engine" };
  const reason = `Undo of the parent ${parent}: ${action?.reason ?? "unknown reason"}`;
  await actOn(env, by, goesOn ? "cancel" : "undo", child, { reason });
  return "begun";
}
