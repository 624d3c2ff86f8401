import { crashPoint } from "../../contract/crash-points.ts";
import { messageOf } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import type { QueueDefinition } from "../../contract/queue.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { ownOf } from "../../topology/consumer.ts";
import type { Consumer, Intake, OnCaptured } from "../consumer.ts";
import { capture, type Fate } from "./capture.ts";

/**
 * Delay before the next try to store a dead letter, in seconds: from one minute up to an hour. A hundred tries take four days, which is the
 * retention time of the dead-letter queue.
 */
const storeRetrySeconds = (attempt: number) => Math.min(60 * 2 ** (attempt - 1), 3600);

/**
 * The consumers of all dead-letter queues. Each exhausted message is stored as a dead letter of its original queue before the message is
 * acknowledged. A command with a committed row does not become a dead letter, because the keeper starts the command without a delivery.
 */
export function consumeDeadLetters(catalog: Catalog, onCaptured: OnCaptured): Consumer[] {
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
