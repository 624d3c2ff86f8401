import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { type Envelope, envelopeSchema } from "../contract/envelope.ts";
import { instanceId } from "../contract/ids.ts";
import type { QueueDefinition } from "../contract/queue.ts";
import { now, rowChunks, type Statement, sql } from "../contract/sql.ts";
import { batch as atomic } from "../store/retry.ts";
import type { Catalog } from "../topology/catalog.ts";
import { confirm } from "./accept.ts";
import type { Consumer } from "./batch.ts";
import { deadLetter, insertDeadLetters } from "./capture.ts";

/** Seconds until a dead letter that could not be stored comes back: a minute at first, an hour in the end. A hundred tries are four days, as long as its queue keeps it. */
const storeRetrySeconds = (attempt: number) => Math.min(60 * 2 ** (attempt - 1), 3600);

/** The consumers of all dead-letter queues: every exhausted message becomes a row, with the queue it came from, before it is acknowledged. */
export function consumeDeadLetters(catalog: Catalog): Consumer[] {
  return catalog.queues.map((queue) => ({
    queue: `${queue.name}-dlq`,
    handle: (batch, env) => capture(batch, env, queue, catalog),
  }));
}

async function capture(batch: MessageBatch, env: EngineEnv, queue: QueueDefinition, catalog: Catalog): Promise<void> {
  const attempts = queue.retries.limit + 1;
  const exhausted = new Error(`No consumer of ${queue.name} could finish this message in ${attempts} attempts.`);
  const letters = batch.messages.map((message) => {
    const envelope = envelopeSchema.safeParse(message.body).data;
    const instance = envelope && instanceOf(envelope, catalog);
    return { envelope, instance, letter: deadLetter(queue.name, message, attempts, exhausted, instance) };
  });
  try {
    await crashPoint("Q05 dead letter not yet stored");
    await atomic(env.DB, [
      ...rowChunks(letters.map(({ letter }) => letter)).map(insertDeadLetters),
      markDead(letters.flatMap(({ instance }) => instance ?? [])),
      ...confirm(letters.flatMap(({ envelope }) => envelope ?? [])),
    ]);
    batch.ackAll();
    await catalog.confirm(
      env,
      letters.flatMap(({ envelope }) => envelope ?? []),
    );
    console.error(JSON.stringify({ log: "dead_letters", queue: queue.name, captured: batch.messages.length }));
  } catch (error) {
    for (const message of batch.messages) message.retry({ delaySeconds: storeRetrySeconds(message.attempts) });
    console.error(JSON.stringify({ log: "dead_letters", queue: queue.name, stored: false, error: String(error) }));
  }
}

function instanceOf(envelope: Envelope, catalog: Catalog): string | null {
  const workflow = catalog.workflows.find(({ on }) => on.type === envelope.message_type && on.kind === "command");
  return workflow ? instanceId(envelope.tenant_id, workflow.name, envelope.idempotency_key) : null;
}

/** Commands that never started: the keeper leaves them to the operator from here on. */
function markDead(ids: readonly string[]): Statement {
  return sql`
    UPDATE instances SET status = 'dead', updated_at = ${now}, check_at = NULL
    WHERE id IN (SELECT value FROM json_each(${JSON.stringify(ids)})) AND status IN ('accepted', 'queued')`;
}
