import { address } from "../../contract/address.ts";
import type { EngineEnv } from "../../contract/bindings.ts";
import { messageId } from "../../contract/ids.ts";
import { payloadFingerprint } from "../../contract/payload.ts";
import { queueFor } from "../../contract/queue.ts";
import { shortened } from "../../contract/text.ts";
import { newTrace } from "../../contract/trace.ts";
import { type DeadLetterReader, getDeadLetter } from "../../inspect/dead-letters.ts";
import { envelopeIn, nameIn } from "../../intake/letters/letter.ts";
import { relay } from "../../recorder/relay.ts";
import { type Action, actionIdOf } from "../../store/actions.ts";
import { escalateLetter, settleLetter } from "../../store/dead-letters.ts";
import { skipInstance } from "../../store/instances/accept.ts";
import { dropOutgoing, type Outgoing, sendBehind } from "../../store/outbox.ts";
import type { Catalog } from "../../topology/catalog.ts";
import type { SkippedLetter } from "../../topology/hooks.ts";
import { act } from "../act.ts";

const SKIPPED = { before: { state: "open" }, after: { state: "skipped" } };

/**
 * Skips a dead letter for good, with an audit row. If the dead letter's command never started its instance, the instance is skipped too.
 * The messages of `onSkipped` are committed in the same write. Errors: `dead_letter_not_found`.
 */
export async function skipDeadLetter(env: EngineEnv, catalog: Catalog, by: DeadLetterReader, id: string, reason: string) {
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
export async function escalateDeadLetter(env: EngineEnv, by: DeadLetterReader, id: string, note: string) {
  const { instance_id: instanceId } = await getDeadLetter(env, by, id);
  const changed = { before: { escalated: false }, after: { escalated: true } };
  const action = { id: crypto.randomUUID(), verb: "escalate", target: id, instanceId, reason: note, ...changed };
  const { isApplied: escalated } = await act(env, by, action, { change: escalateLetter(id, by.actor, note) });
  return { action_id: action.id, escalated };
}

interface GivenUp extends Pick<SkippedLetter, "id" | "queue" | "messageType" | "idempotencyKey" | "reason"> {
  tenantId: string;
  correlationId: string | undefined;
}

interface Decision {
  because: string;
  actor: string;
  source: "operator" | "retention";
}

/**
 * The messages of the deployment's `onSkipped` for a dead letter, with the correlation id of this dead letter. The messages are committed
 * in the same write as the skip. A repeated call for the same dead letter returns the same messages.
 */
export function aboutLetter(env: EngineEnv, catalog: Catalog, letter: GivenUp, { because, actor, source }: Decision): Promise<Outgoing[]> {
  const { id, queue, reason, tenantId, correlationId } = letter;
  // Dead letters of earlier deployments may have longer names.
  const cut = (text: string | null) => text && shortened(text, 500);
  const [messageType, idempotencyKey] = [cut(letter.messageType), cut(letter.idempotencyKey)];
  const drafts = catalog.hooks.onSkipped?.({ id, queue, messageType, idempotencyKey, reason, because, actor, at: new Date() }) ?? [];
  return Promise.all(
    drafts.map(async (draft) => {
      const envelope = await address(env.PAYLOADS, draft, {
        tenantId,
        source,
        correlationId: correlationId ?? id,
        causationId: `dead-letter/${id}`,
        traceparent: newTrace(),
        owner: `dead-letter-${id}`,
      });
      return {
        id: messageId(envelope),
        queue: queueFor(draft.queue, envelope),
        delaySeconds: draft.delaySeconds,
        body: JSON.stringify(envelope),
      };
    }),
  );
}
