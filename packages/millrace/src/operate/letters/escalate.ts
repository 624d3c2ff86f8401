import type { EngineEnv } from "../../contract/bindings.ts";
import { type DeadLetterReader, getDeadLetter } from "../../inspect/dead-letters.ts";
import { escalateLetter } from "../../store/dead-letters.ts";
import { act } from "../act.ts";

/**
 * Asks others to look at an open letter: they hear of it by the channels of alerts, once. It stays open. Whoever escalates it once more
 * changes nothing, which is audited. Errors: `dead_letter_not_found`.
 */
export async function escalateDeadLetter(
  env: EngineEnv,
  by: DeadLetterReader,
  id: string,
  note: string,
): Promise<{ actionId: string; escalated: boolean }> {
  const { instanceId } = await getDeadLetter(env, by, id);
  const changed = { before: { escalated: false }, after: { escalated: true } };
  const action = { id: crypto.randomUUID(), verb: "escalate", target: id, instanceId, reason: note, ...changed };
  const { isApplied: escalated } = await act(env, by, action, { change: escalateLetter(id, by.actor, note) });
  return { actionId: action.id, escalated };
}
