import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";

/** How a batch was settled. */
export interface Settled {
  acked: number;
  retried: number;
}

/**
 * Hands a batch to a consumer and answers how its messages were settled. Every delivery has an id of its own, as copies of one message
 * have on the platform.
 */
export async function deliverTo(
  consume: (batch: MessageBatch, ctx: ExecutionContext) => Promise<unknown>,
  queue: string,
  bodies: readonly unknown[],
  attempts = 1,
): Promise<Settled> {
  const batch = createMessageBatch(
    queue,
    bodies.map((body) => ({ id: crypto.randomUUID(), timestamp: new Date(), attempts, body })),
  );
  const ctx = createExecutionContext();
  await consume(batch, ctx);
  const result = await getQueueResult(batch, ctx);
  return {
    acked: result.ackAll ? bodies.length : result.explicitAcks.length,
    retried: result.retryBatch.retry ? bodies.length : result.retryMessages.length,
  };
}
