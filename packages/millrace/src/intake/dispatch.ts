import { type EngineEnv, queuePrefix } from "../contract/bindings.ts";
import { cellCount } from "../contract/cells.ts";
import { logLine } from "../contract/log-line.ts";
import { isTenant } from "../contract/tenant.ts";
import { cellOf, cellsFor } from "../store/cells.ts";
import type { Catalog } from "../topology/catalog.ts";
import { ownOf } from "../topology/consumer.ts";
import { consumeCommands } from "./consume/commands.ts";
import { consumeEvents } from "./consume/events.ts";
import type { Consumer, OnCaptured } from "./consumer.ts";
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
    if (consumer) return void (await (cellCount(env) === 1 ? consumer.handle(batch, env) : handleInCells(consumer, batch, env)));
    if (others) return void (await others(batch));
    const error =
      "This queue has no consumer in the catalog: its messages are returned to it. Add a consumer to the catalog, or remove the queue from wrangler.jsonc.";
    logLine("error", { log: "config_invalid", queue: batch.queue, error });
    batch.retryAll({ delaySeconds: 60 });
  };
}

/** Passes the messages of a batch to the consumer, separately for each cell. Messages without a valid tenant belong to the first cell. */
async function handleInCells(consumer: Consumer, batch: MessageBatch, env: EngineEnv): Promise<void> {
  const tenants = batch.messages.map(({ body }) => tenantOf(body));
  const known = tenants.flatMap((tenant) => tenant ?? []);
  const cells = await cellsFor(env, known).catch(() => eachCell(env, known));
  const groups = Map.groupBy(batch.messages.keys(), (at) => cells.get(tenants[at] ?? "") ?? env);
  await Promise.all(
    [...groups].map(([own, places]) => {
      const messages = [...places].flatMap((at) => batch.messages[at] ?? []);
      return consumer.handle({ queue: batch.queue, metadata: batch.metadata, messages } as unknown as MessageBatch, own);
    }),
  );
}

/**
 * The envs of the tenants' cells, each read alone. The messages of a tenant with an unknown cell are handled as if their database did not
 * answer.
 */
async function eachCell(env: EngineEnv, tenants: readonly string[]): Promise<Map<string, EngineEnv>> {
  const cells = [...new Set(tenants)].map(async (tenant): Promise<[string, EngineEnv]> => {
    const own = cellOf(env, tenant).catch((error: unknown) => ({ ...env, DB: unreachable(error) }));
    return [tenant, await own];
  });
  return new Map(await Promise.all(cells));
}

function tenantOf(body: unknown): string | undefined {
  const tenant = (body as { tenant_id?: unknown } | null)?.tenant_id;
  return typeof tenant === "string" && isTenant(tenant) ? tenant : undefined;
}

function unreachable(error: unknown): D1Database {
  const refuse = () => {
    throw error;
  };
  return { prepare: refuse, batch: refuse, exec: refuse, withSession: refuse, dump: refuse } as D1Database;
}
