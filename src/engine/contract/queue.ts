/** A queue, as messages name what they travel on. Who takes them from it, and how, its consumer says. */
export interface QueueDefinition {
  /** `{purpose}[-{tenant}]`; its dead-letter queue is this name with `-dlq` behind it. */
  readonly name: string;
}

/** Declares a queue, for the messages that travel on it and for its consumer. */
export function defineQueue({ name }: QueueDefinition): QueueDefinition {
  return { name };
}
