import type { EngineEnv } from "../contract/bindings.ts";
import { logLine } from "../contract/log-line.ts";
import type { Catalog } from "../topology/catalog.ts";
import { consumeCommands } from "./commands.ts";
import { consumeDeadLetters } from "./dead-letters.ts";
import { consumeEvents } from "./events.ts";

/**
 * The `queue` handler of a Worker. Each queue is handled as its consumer in the catalog says, and its dead letters
 * are kept. A batch of an unknown queue goes back, loudly, instead of being lost.
 */
export function dispatch(catalog: Catalog): (batch: MessageBatch, env: EngineEnv) => Promise<void> {
  const consumers = catalog.consumers.map((consumer) =>
    consumer.starts ? consumeCommands(consumer, catalog) : consumeEvents(consumer, catalog),
  );
  const byQueue = new Map([...consumers, ...consumeDeadLetters(catalog)].map((consumer) => [consumer.queue, consumer]));
  return async (batch, env) => {
    const consumer = byQueue.get(batch.queue);
    if (consumer) return void (await consumer.handle(batch, env));
    const error =
      "No consumer in the catalog takes this queue: its messages go back to it. Add its consumer to the catalog, or take it out of wrangler.jsonc.";
    logLine("error", { log: "config_invalid", queue: batch.queue, error });
    batch.retryAll({ delaySeconds: 60 });
  };
}
