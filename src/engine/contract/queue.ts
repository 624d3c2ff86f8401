import { backoffMs, type Duration, durationMs } from "./duration.ts";

/** One queue as data: `wrangler.jsonc` must say the same, and a test holds the two against each other. */
export interface QueueDefinition {
  /** `{purpose}[-{tenant}]`; its dead-letter queue is this name with `-dlq` behind it. */
  readonly name: string;
  readonly retries: { readonly limit: number; readonly initialMs: number; readonly maxMs: number };
  readonly batch: { readonly size: number; readonly waitSeconds: number };
}

/** Declares a queue. Retries default to 3, from 30 seconds up to 10 minutes; batches to 10 messages and no wait, as suits a queue a person waits for. */
export function defineQueue(options: {
  name: string;
  retries?: { limit: number; initial: Duration; max: Duration };
  batch?: { size: number; waitSeconds: number };
}): QueueDefinition {
  const retries = options.retries ?? { limit: 3, initial: "30 seconds", max: "10 minutes" };
  return {
    name: options.name,
    retries: { limit: retries.limit, initialMs: durationMs(retries.initial), maxMs: durationMs(retries.max) },
    batch: options.batch ?? { size: 10, waitSeconds: 0 },
  };
}

/** Seconds before the next delivery of a message that failed `attempt` times: whole seconds, at least one, as queues count. */
export function retryDelaySeconds(queue: QueueDefinition, attempt: number): number {
  return Math.max(1, Math.ceil(backoffMs(attempt, queue.retries.initialMs, queue.retries.maxMs) / 1000));
}
