import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { Consumer } from "./batch.ts";
import { consumeDeadLetters } from "./dead-letters.ts";

/**
 * Chooses the consumer of a batch by its queue, for `export default { queue }`; every queue's dead letters are consumed without being asked for.
 * Errors, when the Worker starts: `config_invalid` for a queue of the catalog without a consumer. A batch of an unknown queue goes back, loudly, instead of being lost.
 */
export function dispatch(catalog: Catalog, consumers: readonly Consumer[]): (batch: MessageBatch, env: EngineEnv) => Promise<void> {
  const byQueue = new Map([...consumers, ...consumeDeadLetters(catalog)].map((consumer) => [consumer.queue, consumer]));
  const unconsumed = catalog.queues.find((queue) => !byQueue.has(queue.name));
  if (unconsumed)
    throw new MillraceError("config_invalid", `The queue "${unconsumed.name}" has no consumer: add one to dispatch() in worker.ts.`);
  return async (batch, env) => {
    const consumer = byQueue.get(batch.queue);
    if (consumer) return consumer.handle(batch, env);
    console.error(
      JSON.stringify({ log: "config_invalid", queue: batch.queue, error: "The catalog knows no such queue: its messages go back to it." }),
    );
    batch.retryAll({ delaySeconds: 60 });
  };
}
