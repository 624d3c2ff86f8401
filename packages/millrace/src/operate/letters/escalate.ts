import type { EngineEnv } from "../../contract/bindings.ts";
import { type DeadLetterReader, getDeadLetter } from "../../inspect/dead-letters.ts";
import { escalateLetter } from "../../store/dead-letters.ts";
import { act } from "../act.ts";

/**
 * Escalates an open dead letter. The alert channels are notified once, and the dead letter stays open. A repeated escalation changes
 * nothing, and is audited as no change. Errors: `dead_letter_not_found`.
 */
export async function escalateDeadLetter(
  env: EngineEnv,
  by: DeadLetterReader,
  id: string,
  note: string,
): Promise<{ action_id: string; escalated: boolean }> {
  const { instance_id: instanceId } = await getDeadLetter(env, by, id);
  const changed = { before: { escalated: false }, after: { escalated: true } };
  const action = { id: crypto.randomUUID(), verb: "escalate", target: id, instanceId, reason: note, ...changed };
  const { isApplied: escalated } = await act(env, by, action, { change: escalateLetter(id, by.actor, note) });
  return { action_id: action.id, escalated };
}
