import { backoffMs, type Duration, durationMs } from "./duration.ts";

/** One queue as data: `wrangler.jsonc` must say the same, and a test holds the two against each other. */
export interface QueueDefinition {
  /** `{purpose}[-{tenant}]`; its dead-letter queue is this name with `-dlq` behind it. */
  readonly name: string;
  readonly retries: { readonly limit: number; readonly initialMs: number; readonly maxMs: number };
  readonly batch: { readonly size: number; readonly waitSeconds: number };
  /** Batches that are consumed at one moment, at most. Left to itself the platform goes up to 250, each with a write to the one database. */
  readonly concurrency: number;
}

/** Consumers of a dead-letter queue: one statement keeps a hundred letters, and the work whose database is in trouble comes first. */
export const DEAD_LETTER_CONCURRENCY = 1;

/**
 * Five consumers with batches of 10, each of them 0.4 s at work, start 125 instances a second: more than the 100 a second that the
 * platform creates of one workflow, so that a sixth would only be refused.
 */
const CONCURRENCY = 5;

/**
 * Declares a queue. Retries default to 3, from 30 seconds up to 10 minutes; batches to 10 messages and no wait, as suits a queue a
 * person waits for; concurrency to 5 batches at a time.
 */
export function defineQueue(options: {
  name: string;
  retries?: { limit: number; initial: Duration; max: Duration };
  batch?: { size: number; waitSeconds: number };
  concurrency?: number;
}): QueueDefinition {
  const retries = options.retries ?? { limit: 3, initial: "30 seconds", max: "10 minutes" };
  return {
    name: options.name,
    retries: { limit: retries.limit, initialMs: durationMs(retries.initial), maxMs: durationMs(retries.max) },
    batch: options.batch ?? { size: 10, waitSeconds: 0 },
    concurrency: options.concurrency ?? CONCURRENCY,
  };
}

/** Seconds before the next delivery of a message that failed `attempt` times: whole seconds, at least one, as queues count. */
export function retryDelaySeconds(queue: QueueDefinition, attempt: number): number {
  return Math.max(1, Math.ceil(backoffMs(attempt, queue.retries.initialMs, queue.retries.maxMs) / 1000));
}
