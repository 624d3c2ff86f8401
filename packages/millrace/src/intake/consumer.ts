import type { EngineEnv } from "../contract/bindings.ts";
import type { DeadLetter } from "../store/dead-letters.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { ConsumerDefinition } from "../topology/consumer.ts";

/** The consumer of one queue, called by the Worker's `queue` handler. */
export interface Consumer {
  readonly queue: string;
  handle(batch: MessageBatch, env: EngineEnv): Promise<unknown>;
}

/** A consumer of messages in delivery. */
export interface Taker extends Consumer {
  /** Returns the outcome of each message. */
  handle(batch: MessageBatch, env: EngineEnv, triesOf?: TriesOf): Promise<Outcomes>;
}

/** The number of tries of a message, including this one. A lane counts tries; for a queue only deliveries are known. */
export type TriesOf = (message: Message) => number;

/** The context of a batch. */
export interface Intake {
  readonly env: EngineEnv;
  readonly consumer: ConsumerDefinition;
  readonly catalog: Catalog;
  /** Counts the tries of a message. Default: the number of deliveries. */
  readonly triesOf?: TriesOf | undefined;
  /** The start of processing, in milliseconds since 1970. */
  readonly takenAt?: number | undefined;
  /** Called with the stored dead letters. Default: nothing. */
  readonly onCaptured?: OnCaptured | undefined;
}

/** Called with stored dead letters, before their deliveries are acknowledged. When the function throws, the messages are redelivered. */
export type OnCaptured = (intake: Intake, letters: readonly DeadLetter[]) => Promise<void>;

/**
 * The outcome of one message.
 * - `refused`: final, a repeat would fail again.
 * - `retried`: is redelivered.
 * - `kept`: its row needs no further delivery.
 * - `settled`: an operator has already settled its dead letter.
 * - `unharmed`: the redelivery does not count as a try.
 * - `isRoutes`: thrown by a route's code, so it counts as a try whatever its code; only errors of the engine do not count.
 */
export type Outcome =
  | { did: "started" | "duplicate" | "captured" | "routed" | "put off" | "kept" | "settled" }
  | { did: "refused" | "retried"; error: unknown; unharmed?: true; isRoutes?: boolean | undefined };

export type Outcomes = Map<Message, Outcome>;
