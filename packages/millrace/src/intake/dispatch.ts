import { type EngineEnv, queuePrefix } from "../contract/bindings.ts";
import { logLine } from "../contract/log-line.ts";
import type { Catalog } from "../topology/catalog.ts";
import { ownOf } from "../topology/consumer.ts";
import { consumeCommands } from "./consume/commands.ts";
import { consumeEvents } from "./consume/events.ts";
import type { OnCaptured } from "./consumer.ts";
import { consumeDeadLetters } from "./letters/dead-letters.ts";

/** Handles a batch. The handler `others` gets batches of queues that are not in the catalog. */
export type Dispatch = (batch: MessageBatch, env: EngineEnv, others?: (batch: MessageBatch) => unknown) => Promise<void>;

/**
 * Passes each batch to the consumer of its queue or dead-letter queue. A batch of an unknown queue is returned to the queue, with an error
 * in the log.
 */
export function dispatchTo(catalog: Catalog, onCaptured: OnCaptured): Dispatch {
  const consumers = ownOf(catalog.consumers).map((consumer) =>
    consumer.starts ? consumeCommands(consumer, catalog, onCaptured) : consumeEvents(consumer, catalog, onCaptured),
  );
  const byQueue = new Map([...consumers, ...consumeDeadLetters(catalog, onCaptured)].map((consumer) => [consumer.queue, consumer]));
  return async (batch, env, others) => {
    const prefix = queuePrefix(env);
    // A queue without the prefix belongs to another environment in the same account.
    const consumer = batch.queue.startsWith(prefix) ? byQueue.get(batch.queue.slice(prefix.length)) : undefined;
    if (consumer) return void (await consumer.handle(batch, env));
    if (others) return void (await others(batch));
    const error =
      "This queue has no consumer in the catalog: its messages are returned to it. Add a consumer to the catalog, or remove the queue from wrangler.jsonc.";
    logLine("error", { log: "config_invalid", queue: batch.queue, error });
    batch.retryAll({ delaySeconds: 60 });
  };
}
