import { address } from "../contract/address.ts";
import type { Envelope } from "../contract/envelope.ts";
import { type EntryKey, eventKey, messageId } from "../contract/ids.ts";
import type { Draft } from "../contract/message.ts";
import { nextHop } from "../contract/trace.ts";
import type { Outgoing } from "../recorder/entry.ts";

/** Addresses what a step emits: correlation carried on, the step as the cause, ids that are the same at every attempt. */
export function addressEmitted(
  bucket: R2Bucket,
  cause: Envelope,
  source: string,
  entry: EntryKey,
  drafts: readonly Draft[],
): Promise<Outgoing[]> {
  return Promise.all(
    drafts.map(async (draft, index) => {
      const emitted = eventKey(entry, index);
      const envelope = await address(bucket, draft, {
        tenantId: cause.tenant_id,
        source,
        correlationId: cause.correlation_id,
        causationId: `${entry.instanceId}/${entry.step}`,
        traceparent: nextHop(cause.traceparent),
        owner: emitted,
      });
      return { id: messageId(envelope), queue: draft.queue.name, delaySeconds: draft.delaySeconds, body: JSON.stringify(envelope) };
    }),
  );
}
