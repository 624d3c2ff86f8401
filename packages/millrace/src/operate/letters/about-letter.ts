import { address } from "../../contract/address.ts";
import type { EngineEnv } from "../../contract/bindings.ts";
import { messageId } from "../../contract/ids.ts";
import { queueFor } from "../../contract/queue.ts";
import { shortened } from "../../contract/text.ts";
import { newTrace } from "../../contract/trace.ts";
import type { Outgoing } from "../../store/outbox.ts";
import type { Catalog } from "../../topology/catalog.ts";
import type { SkippedLetter } from "../../topology/hooks.ts";

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
