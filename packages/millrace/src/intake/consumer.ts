import type { EngineEnv } from "../contract/bindings.ts";
import type { DeadLetter } from "../store/dead-letters.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { ConsumerDefinition } from "../topology/consumer.ts";

/** The consumer of one queue, called by the Worker's `queue` handler. */
export interface Consumer {
  readonly queue: string;
  handle(batch: MessageBatch, env: EngineEnv): Promise<unknown>;
}

/** A consumer that can determine the outcome of single delivered messages. */
export interface Taker extends Consumer {
  /** Returns the outcome of each message. */
  handle(batch: MessageBatch, env: EngineEnv, triesOf?: TriesOf): Promise<Outcomes>;
}

/** The number of tries of a message, including the present try. A lane counts tries, whereas a queue reports only deliveries. */
export type TriesOf = (message: Message) => number;

/** The context in which the messages of a batch are accepted. */
export interface Intake {
  readonly env: EngineEnv;
  readonly consumer: ConsumerDefinition;
  readonly catalog: Catalog;
  /** Returns the number of tries of a message. Default: the number of its deliveries. */
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
 * - `refused`: the error is final, because a repeat would fail again.
 * - `retried`: the message is redelivered.
 * - `kept`: the message needs no further delivery, because the keeper starts the instance or the instance runs.
 * - `settled`: an operator has already settled the message's dead letter.
 * - `unharmed`: the redelivery does not count as a try.
 * - `isRoutes`: a route's code threw the error. Such an error always counts as a try, whereas some errors of the engine do not count.
 */
export type Outcome =
  | { did: "started" | "duplicate" | "captured" | "routed" | "put off" | "kept" | "settled" }
  | { did: "refused" | "retried"; error: unknown; unharmed?: true; isRoutes?: boolean | undefined };

export type Outcomes = Map<Message, Outcome>;
