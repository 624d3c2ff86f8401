import type { EngineEnv } from "../contract/bindings.ts";
import { codeOf, messageOf } from "../contract/errors.ts";
import { type QueueDefinition, retryDelaySeconds } from "../contract/queue.ts";

/** One queue's consumer, as the Worker's `queue` handler calls it. */
export interface Consumer {
  readonly queue: string;
  handle(batch: MessageBatch, env: EngineEnv): Promise<void>;
}

/** What a consumer did with one message. */
export type Outcome = { did: "started" | "duplicate" | "captured" | "routed" } | { did: "retried"; error: unknown };

/** Settles each message by itself: what is durable is acknowledged, the rest comes back after its queue's back-off. */
export function settle(batch: MessageBatch, queue: QueueDefinition, outcomes: ReadonlyMap<Message, Outcome>): void {
  const counts: Record<string, number> = {};
  for (const message of batch.messages) {
    const outcome = outcomes.get(message) ?? { did: "retried", error: new Error("The batch was not finished.") };
    counts[outcome.did] = (counts[outcome.did] ?? 0) + 1;
    if (outcome.did === "retried") {
      message.retry({ delaySeconds: retryDelaySeconds(queue, message.attempts) });
      console.warn(
        JSON.stringify({
          log: "delivery",
          queue: queue.name,
          ...named(message),
          outcome: "retried",
          code: codeOf(outcome.error),
          error: messageOf(outcome.error),
        }),
      );
    } else {
      message.ack();
      if (outcome.did === "captured")
        console.warn(JSON.stringify({ log: "delivery", queue: queue.name, ...named(message), outcome: "captured" }));
    }
  }
  console.log(JSON.stringify({ log: "batch", queue: queue.name, messages: batch.messages.length, ...counts }));
}

/** What a log line may say of a message: names, never its payload. */
function named(message: Message): Record<string, unknown> {
  const body = (typeof message.body === "object" && message.body !== null ? message.body : {}) as Record<string, unknown>;
  const { correlation_id, idempotency_key, message_type, subject } = body;
  return { delivery_id: message.id, attempt: message.attempts, correlation_id, idempotency_key, message_type, subject };
}
