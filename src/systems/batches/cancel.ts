import { errors, MillraceError, texts } from "millrace";
import { act, instances, type Operator } from "millrace/operate";
import { type Batch, findBatch, markCancelled } from "./batch.ts";

/**
 * Cancels a batch at its next chunk. Rows that are already processed remain. A repeated cancel changes nothing, and the audit says so. The
 * result is undefined for an unknown batch. Errors: `invalid_transition` for a complete batch.
 */
export async function cancelBatch(
  env: Env,
  by: Operator,
  batchId: string,
  reason: string,
): Promise<{ actionId: string; changed: boolean; batch: Batch } | undefined> {
  const before = await findBatch(env.DB, by.tenantId, batchId);
  if (!before) return undefined;
  const { instanceId } = before;
  const actionId = crypto.randomUUID();
  const moved = { before: { state: before.state }, after: { state: "cancelling" } };
  const action = { id: actionId, verb: "cancel", target: batchId, instanceId, reason, ...moved };
  const { isApplied: changed } = await act(env, by, action, { change: markCancelled(by.tenantId, batchId, reason) });
  // An errored instance would never reach its next chunk, so the instance is resumed and ends the batch.
  if (before.state === "errored") await endStopped(env, by, instanceId, reason);
  const batch = await findBatch(env.DB, by.tenantId, batchId);
  if (!batch) return undefined;
  if (!changed && batch.state === "complete") {
    throw new MillraceError("invalid_transition", `The batch ${batchId} is complete and cannot be cancelled.`, {
      from: "complete",
      to: "cancelled",
      audited: true,
    });
  }
  return { actionId, changed, batch };
}

async function endStopped(env: Env, by: Operator, instanceId: string, reason: string): Promise<void> {
  try {
    await instances.act(env, by, "retry", instanceId, { reason: texts.beginning(`cancelled: ${reason}`, 500) });
  } catch (error) {
    if (errors.codeOf(error) !== "invalid_transition") throw error;
  }
}
