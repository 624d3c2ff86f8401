import type { EngineEnv } from "../../contract/bindings.ts";
import { formatEntryKey } from "../../contract/ids.ts";
import { within } from "../../contract/within.ts";
import { doubtEventType } from "../../guard/doubt.ts";
import { type Answered, answerEventType, asApproval, selectAnswered } from "../../signals/approval.ts";
import { tellAgain } from "../../signals/assign.ts";
import { namedBatch } from "../../store/d1/named.ts";
import { type ResolvedEntry, selectResolved } from "../../store/inbox/read.ts";

/**
 * Sends a restarted run its recorded answers, resolved outcomes and events. After a restart the platform still shows the waiting steps, but
 * has lost their events. Each step has its own event type, so a second copy has no effect.
 */
export async function tellHeld(
  env: EngineEnv,
  instance: WorkflowInstance,
  { instance_id, undo }: { instance_id: string; undo: string | null },
): Promise<void> {
  const { resolved, answered } = await namedBatch(env.DB, {
    resolved: selectResolved(instance_id),
    answered: selectAnswered(instance_id),
  });
  for (const { step, item, generation, state } of resolved as unknown as ResolvedEntry[]) {
    const type = doubtEventType(formatEntryKey({ instanceId: instance_id, step, item, generation }));
    await within(instance.sendEvent({ type, payload: { resolved: state } }));
  }
  // An undo does not wait for answers or events: it reads them from the rows.
  if (undo !== null) return;
  for (const row of answered as unknown as Answered[]) {
    await within(instance.sendEvent({ type: answerEventType(row.id), payload: asApproval(row) }));
  }
  await tellAgain(env, [instance_id]);
}
