import { type EngineEnv, queuePrefix } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { isTenant } from "../contract/envelope.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { QueueDefinition } from "../contract/queue.ts";
import { cellOf, cellsFor, isOneCell } from "../store/cells.ts";
import type { Catalog } from "../topology/catalog.ts";
import { ownOf } from "../topology/consumer.ts";
import { consumeCommands } from "./consume/commands.ts";
import { consumeEvents } from "./consume/events.ts";
import type { Consumer, Intake, OnCaptured } from "./consumer.ts";
import { capture, type Fate } from "./letters/capture.ts";

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
    if (consumer) return void (await ((await isOneCell(env)) ? consumer.handle(batch, env) : handleInCells(consumer, batch, env)));
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

/**
 * Delay before the next try to store a dead letter, in seconds: from one minute up to an hour. A hundred tries take four days, which is the
 * retention time of the dead-letter queue.
 */
const storeRetrySeconds = (attempt: number) => Math.min(60 * 2 ** (attempt - 1), 3600);

/**
 * The consumers of all dead-letter queues. Each exhausted message is stored as a dead letter of its original queue before the message is
 * acknowledged. A command with a committed row does not become a dead letter, because the keeper starts the command without a delivery.
 */
function consumeDeadLetters(catalog: Catalog, onCaptured: OnCaptured): Consumer[] {
  return ownOf(catalog.consumers).map((consumer) => ({
    queue: `${consumer.queue.name}-dlq`,
    handle: (batch, env) => captureExhausted(batch, { env, consumer, catalog, onCaptured }),
  }));
}

async function captureExhausted(batch: MessageBatch, intake: Intake): Promise<void> {
  const { queue, retries } = intake.consumer;
  const attempts = retries.limit + 1;
  const error = new Error(
    `The consumer of ${queue.name} did not finish this message in ${attempts} attempts and recorded no error: search the logs for its delivery.`,
  );
  try {
    await crashPoint("Q05 dead letter not yet stored");
    const fates = await capture(
      intake,
      batch.messages.map((message) => ({ message, error, attempts, refused: false, isUnheard: true as const })),
    );
    for (const [index, message] of batch.messages.entries()) {
      const fate = fates[index];
      if (typeof fate === "string") message.ack();
      else comeBack(queue, [message], fate?.failed);
    }
    const count = (what: Fate) => fates.filter((fate) => fate === what).length;
    logLine("error", { log: "dead_letters", queue: queue.name, captured: count("captured"), kept: count("kept") });
  } catch (failure) {
    comeBack(queue, batch.messages, failure);
  }
}

function comeBack(queue: QueueDefinition, messages: readonly Message[], failure: unknown): void {
  for (const message of messages) message.retry({ delaySeconds: storeRetrySeconds(message.attempts) });
  logLine("error", { log: "dead_letters", queue: queue.name, stored: false, error: messageOf(failure) });
}
