import type { EngineEnv } from "../../contract/bindings.ts";
import { formatEntryKey } from "../../contract/ids.ts";
import { within } from "../../contract/within.ts";
import { doubtEventType } from "../../guard/doubt.ts";
import { type Answered, answerEventType, asApproval, selectAnswered } from "../../signals/approval.ts";
import { tellAgain } from "../../signals/assign.ts";
import { namedBatch } from "../../store/d1/named.ts";
import { type ResolvedEntry, selectResolved } from "../../store/inbox/read.ts";

/**
 * Tells a run that was restarted of everything that its rows hold: answers, resolved doubts, events. The platform remembers that its parked
 * steps wait, and forgets at a restart what they were told. Each has an event type of its own, so that a step which has heard hears nothing
 * more.
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
  // An undo asks nobody and waits for no event: it finds in the rows what came.
  if (undo !== null) return;
  for (const row of answered as unknown as Answered[]) {
    await within(instance.sendEvent({ type: answerEventType(row.id), payload: asApproval(row) }));
  }
  await tellAgain(env, [instance_id]);
}
