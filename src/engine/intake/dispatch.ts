import type { EngineEnv } from "../contract/bindings.ts";
import type { Catalog } from "../topology/catalog.ts";
import { consumeCommands } from "./commands.ts";
import { consumeDeadLetters } from "./dead-letters.ts";
import { consumeEvents } from "./events.ts";

/**
 * The `queue` handler of a Worker. Which queues there are, and what they carry, follows from the catalog: each gets its consumer, and
 * its dead letters theirs. A batch of an unknown queue goes back, loudly, instead of being lost.
 */
export function dispatch(catalog: Catalog): (batch: MessageBatch, env: EngineEnv) => Promise<void> {
  const asked = new Set(catalog.workflows.flatMap(({ on }) => (on.kind === "command" ? [on.queue.name] : [])));
  const consumers = catalog.queues.map((queue) => (asked.has(queue.name) ? consumeCommands : consumeEvents)(queue, catalog));
  const byQueue = new Map([...consumers, ...consumeDeadLetters(catalog)].map((consumer) => [consumer.queue, consumer]));
  return async (batch, env) => {
    const consumer = byQueue.get(batch.queue);
    if (consumer) return consumer.handle(batch, env);
    const error =
      "No message that the catalog knows travels on this queue: its messages go back to it. Add the workflow to the catalog, or take the consumer out of wrangler.jsonc.";
    console.error(JSON.stringify({ log: "config_invalid", queue: batch.queue, error }));
    batch.retryAll({ delaySeconds: 60 });
  };
}
