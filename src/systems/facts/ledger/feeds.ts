import { type Draft, ids, traces } from "millrace";
import { outbox } from "millrace/worker";
import type { RecordedFact } from "../../../messages/fact.ts";
import { FactRecorded, PROCESSED, PROCESSED_EVENTS } from "../../../messages/facts.ts";

/** The queues to which a ledger sends its facts. */
export const FEEDS = ["projections", "fact-processing"] as const;
export type Feed = (typeof FEEDS)[number];

/**
 * Returns the source of a ledger's messages, which contains the epoch of the send: `ledger` in the epoch 0, `ledger/1` after the first
 * replay. The messages' subject is the ledger's entity.
 */
export function sourceIn(epoch: number): string {
  return epoch === 0 ? "ledger" : `ledger/${epoch}`;
}

/** Returns the epoch in which a ledger sent a message; undefined if the source is not a ledger. */
export function epochOf(source: string): number | undefined {
  const found = /^ledger(?:\/(\d+))?$/.exec(source);
  return found ? Number(found[1] ?? 0) : undefined;
}

/**
 * The SQL condition for the facts of each feed. The feed `projections` has all facts; the feed `fact-processing` has the facts whose types
 * have consequences.
 */
export const BELONGS: Record<Feed, string> = {
  projections: "true",
  "fact-processing": `type IN (${PROCESSED.map((type) => `'${type}'`).join(", ")})`,
};

export function belongsTo(feed: Feed, { type }: Pick<RecordedFact, "type">): boolean {
  return feed === "projections" || type in PROCESSED_EVENTS;
}

type Outgoing = Parameters<typeof outbox.relay>[1][number];

/** The feed of a ledger's message. */
export function feedOf(messageType: string): Feed {
  return messageType === FactRecorded.type ? "projections" : "fact-processing";
}

/** Creates the message of a fact for a feed. A repeated message of the same fact differs only in its span and time. */
export async function messageFor(bucket: R2Bucket, feed: Feed, fact: RecordedFact, epoch: number): Promise<Outgoing> {
  return outgoing(bucket, feed, eventOf(feed, fact).from(fact as never), fact, { epoch, key: `${fact.entity}/${fact.fact_id}` });
}

/**
 * Creates the message for a fact that `messageFor` refuses. The consumer stores the unchanged fact as a dead letter and confirms the fact.
 * Without this message the fact would be retried and reported forever.
 */
export async function misfitFor(bucket: R2Bucket, feed: Feed, fact: RecordedFact, epoch: number): Promise<Outgoing> {
  const { kind, type, version, queue } = eventOf(feed, fact);
  const draft = { kind, type, version, queue, payload: fact, key: undefined, subject: fact.entity, delaySeconds: 0 };
  return outgoing(bucket, feed, draft, fact, { epoch, key: ids.digest(fact.entity, fact.fact_id) });
}

function eventOf(feed: Feed, { type }: RecordedFact) {
  return feed === "projections" ? FactRecorded : PROCESSED_EVENTS[type as keyof typeof PROCESSED_EVENTS];
}

async function outgoing(
  bucket: R2Bucket,
  feed: Feed,
  draft: Draft,
  { tenant_id, correlation_id, causation_id, sequence, trace_id, traceparent, tracestate }: RecordedFact,
  { epoch, key }: { epoch: number; key: string },
): Promise<Outgoing> {
  const envelope = await outbox.address(bucket, draft, {
    tenantId: tenant_id,
    source: sourceIn(epoch),
    correlationId: correlation_id,
    causationId: causation_id,
    ...traces.nextHop({ traceparent: traceparent ?? `00-${trace_id}-${"1".padStart(16, "0")}-01`, tracestate }),
    idempotencyKey: key,
    sequence,
    outbox: "sender",
    owner: `${feed}-${sequence}`,
  });
  return { id: outbox.messageId(envelope), queue: outbox.queueFor(draft.queue, envelope), delaySeconds: 0, body: JSON.stringify(envelope) };
}
