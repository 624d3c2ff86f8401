import { nextHop } from "millrace";
import { address, messageId, type Outgoing } from "millrace/worker";
import type { RecordedFact } from "../../../messages/fact.ts";
import { FactRecorded, PROCESSED, PROCESSED_EVENTS } from "../../../messages/facts.ts";

/** The queues that a ledger's facts go to. */
export const FEEDS = ["projections", "fact-processing"] as const;
export type Feed = (typeof FEEDS)[number];

/**
 * What a ledger's messages say as their source, with the epoch in which they were sent: `ledger`, after a replay `ledger/1`. Their subject
 * is its entity.
 */
export function sourceIn(epoch: number): string {
  return epoch === 0 ? "ledger" : `ledger/${epoch}`;
}

/** The epoch in which a ledger sent a message; undefined for one of somebody else. */
export function epochOf(source: string): number | undefined {
  const found = /^ledger(?:\/(\d+))?$/.exec(source);
  return found ? Number(found[1] ?? 0) : undefined;
}

/** Which facts belong to a feed, as SQL: all to the projections, and those from which something follows to the processing. */
export const BELONGS: Record<Feed, string> = {
  projections: "true",
  "fact-processing": `type IN (${PROCESSED.map((type) => `'${type}'`).join(", ")})`,
};

export function belongsTo(feed: Feed, { type }: Pick<RecordedFact, "type">): boolean {
  return feed === "projections" || type in PROCESSED_EVENTS;
}

/** The feed that a ledger's message came by. */
export function feedOf(messageType: string): Feed {
  return messageType === FactRecorded.type ? "projections" : "fact-processing";
}

/** The message that takes a fact to a feed: the same at every send, but for its span and time. */
export async function messageFor(bucket: R2Bucket, feed: Feed, fact: RecordedFact, epoch: number): Promise<Outgoing> {
  const { entity, fact_id, tenant_id, correlation_id, causation_id, sequence } = fact;
  const event = feed === "projections" ? FactRecorded : PROCESSED_EVENTS[fact.type as keyof typeof PROCESSED_EVENTS];
  const envelope = await address(bucket, event.from(fact as never), {
    tenantId: tenant_id,
    source: sourceIn(epoch),
    correlationId: correlation_id,
    causationId: causation_id,
    ...nextHop({ traceparent: fact.traceparent ?? `00-${fact.trace_id}-${"1".padStart(16, "0")}-01`, tracestate: fact.tracestate }),
    idempotencyKey: `${entity}/${fact_id}`,
    sequence,
    outbox: "sender",
    owner: `${feed}-${sequence}`,
  });
  return { id: messageId(envelope), queue: feed, delaySeconds: 0, body: JSON.stringify(envelope) };
}
