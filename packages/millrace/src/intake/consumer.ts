import type { EngineEnv } from "../contract/bindings.ts";
import type { DeadLetter } from "../store/dead-letters.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { ConsumerDefinition } from "../topology/consumer.ts";

/** One queue's consumer, as the Worker's `queue` handler calls it. */
export interface Consumer {
  readonly queue: string;
  handle(batch: MessageBatch, env: EngineEnv): Promise<unknown>;
}

/** The same, of messages that are on their way. */
export interface Taker extends Consumer {
  /** Answers what became of each. */
  handle(batch: MessageBatch, env: EngineEnv, triesOf?: TriesOf): Promise<Outcomes>;
}

/** How many tries a message has had, this one included. A lane counts them; of a queue all that is known is the deliveries. */
export type TriesOf = (message: Message) => number;

/** Where messages are taken in: by which consumer, and what is known of what they may say. */
export interface Intake {
  readonly env: EngineEnv;
  readonly consumer: ConsumerDefinition;
  readonly catalog: Catalog;
  /** Default: its deliveries. */
  readonly triesOf?: TriesOf | undefined;
  /** Since when the batch is worked on, in milliseconds since 1970. */
  readonly takenAt?: number | undefined;
  /** Default: nothing. */
  readonly onCaptured?: OnCaptured | undefined;
}

/** What is done about dead letters once they are stored, before their deliveries are settled: what throws has those come back. */
export type OnCaptured = (intake: Intake, letters: readonly DeadLetter[]) => Promise<void>;

/**
 * What a consumer did with one message. `refused`: it goes no further, whoever tries. `retried`: it comes back. `kept`: its row needs no
 * delivery any more. `unharmed`: coming back costs it none of its tries in the end. `isRoutes`: the code of a route threw it, so that it costs
 * one whatever it is called: only the engine's own trouble costs none. `settled`: an operator has settled its dead letter before.
 */
export type Outcome =
  | { did: "started" | "duplicate" | "captured" | "routed" | "put off" | "kept" | "settled" }
  | { did: "refused" | "retried"; error: unknown; unharmed?: true; isRoutes?: boolean | undefined };

export type Outcomes = Map<Message, Outcome>;
