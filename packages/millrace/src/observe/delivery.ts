import type { Hide } from "../contract/hide.ts";

/** What a queue, or a lane, hands over. */
export type Delivered = Pick<Message, "id" | "body">;

/** What became of one delivery of a message. */
export interface Delivery {
  readonly queue: string;
  readonly message: Delivered;
  readonly attempt: number;
  readonly outcome: "started" | "duplicate" | "routed" | "kept" | "put off" | "retried" | "captured" | "settled";
  /** From when the message was made until this delivery of it was taken; not known of a message that does not say. */
  readonly waitedMs?: number | undefined;
  /** How long it was worked on, with its batch. */
  readonly ms?: number | undefined;
  /** The dead letter that holds it. */
  readonly deadLetter?: string;
  readonly code?: string | undefined;
  readonly upstreamStatus?: number | undefined;
  readonly error?: string;
  /** Hides sensitive values of the payload in the message's names. */
  readonly hide: Hide;
}
