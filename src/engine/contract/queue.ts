/** A queue, as messages name what they travel on. Who takes them from it, and how, its consumer says. */
export interface QueueDefinition {
  /** `{purpose}[-{tenant}]`; its dead-letter queue is this name with `-dlq` behind it. */
  readonly name: string;
}

/** The longest that a queue is asked to hold a message back: 12 hours. */
export const MAX_DELAY_SECONDS = 43_200;

/** Declares a queue, for the messages that travel on it and for its consumer. */
export function defineQueue({ name }: QueueDefinition): QueueDefinition {
  return { name };
}
