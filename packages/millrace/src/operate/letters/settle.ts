import type { EngineEnv } from "../../contract/bindings.ts";
import { payloadFingerprint } from "../../contract/payload.ts";
import { type DeadLetterReader, getDeadLetter } from "../../inspect/dead-letters.ts";
import { envelopeIn, nameIn } from "../../intake/letters/letter.ts";
import { relay } from "../../recorder/relay.ts";
import { type Action, actionIdOf } from "../../store/actions.ts";
import { escalateLetter, settleLetter } from "../../store/dead-letters.ts";
import { skipInstance } from "../../store/instances/accept.ts";
import { dropOutgoing, sendBehind } from "../../store/outbox.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { act } from "../act.ts";
import { aboutLetter } from "./about-letter.ts";

const SKIPPED = { before: { state: "open" }, after: { state: "skipped" } };

/**
 * Skips a dead letter for good, with an audit row. If the dead letter's command never started its instance, the instance is skipped too.
 * The messages of `onSkipped` are committed in the same write. Errors: `dead_letter_not_found`.
 */
export async function skipDeadLetter(
  env: EngineEnv,
  catalog: Catalog,
  by: DeadLetterReader,
  id: string,
  reason: string,
): Promise<{ action_id: string; skipped: boolean }> {
  const letter = await getDeadLetter(env, by, id);
  const { instance_id: instanceId, body } = letter;
  const actionId = actionIdOf(by);
  const message = envelopeIn(body);
  const known = {
    ...letter,
    messageType: letter.message_type,
    idempotencyKey: letter.idempotency_key,
    tenantId: by.tenantId,
    correlationId: nameIn(body, "correlation_id"),
  };
  const about = await aboutLetter(env, catalog, known, { because: reason, actor: by.actor, source: "operator" });
  const action: Action = { id: actionId, verb: "skip", target: id, instanceId, reason, ...SKIPPED };
  const { isApplied: skipped } = await act(env, by, action, {
    change: settleLetter(id, "skipped"),
    also: {
      given: message ? [skipInstance(instanceId, payloadFingerprint(message), actionId), dropOutgoing(message, actionId)] : [],
      said: about.map((one) => sendBehind(one, actionId)),
    },
  });
  if (skipped) await relay(env, about);
  return { action_id: actionId, skipped };
}

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
