import type { Hide } from "../contract/hide.ts";

/** A message from a queue or a lane. */
export type Delivered = Pick<Message, "id" | "body">;

/** The outcome of one delivery of a message. */
export interface Delivery {
  readonly queue: string;
  readonly message: Delivered;
  readonly attempt: number;
  readonly outcome: "started" | "duplicate" | "routed" | "kept" | "put off" | "retried" | "captured" | "settled";
  /** Time from the message's creation to this delivery; undefined if the message does not contain its creation time. */
  readonly waitedMs?: number | undefined;
  /** Processing time of the batch that contained the message. */
  readonly ms?: number | undefined;
  /** The id of the message's dead letter. */
  readonly deadLetter?: string;
  readonly code?: string | undefined;
  readonly upstreamStatus?: number | undefined;
  readonly error?: string;
  /** Redacts the payload's sensitive values where the message's key, subject or source repeats them. */
  readonly hide: Hide;
}
