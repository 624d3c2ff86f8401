import { MAX_DELAY_SECONDS } from "../contract/queue.ts";

/** A message in the form that the lane's handler gets. */
export interface Handed {
  sequence: number;
  id: string;
  sentAt: number;
  body: unknown;
  /** The number of the present delivery, starting at 1. */
  attempts: number;
}

/** The settlement of a batch, with one entry per message in the order of the batch. */
export interface Settled {
  /**
   * `ack`: the message is done; `retry`: the handler called the message's `retry`; `failed`: the handler called the batch's `retry`, or
   * failed.
   */
  each: ("ack" | "retry" | "failed")[];
  /** The requested delay of a retry in milliseconds, by message. */
  delayMs: (number | undefined)[];
}

type Said = { ack: true } | { ack: false; delayMs: number | undefined };

/**
 * The settlements of one batch, with the rules of a Cloudflare queue: only the first call for a message has an effect. The first call for
 * the batch applies to messages without a call of their own. Calls after `close` are ignored.
 */
export class Settlement {
  readonly #messages: readonly Handed[];
  readonly #each: (Said | undefined)[];
  #all: Said | undefined;
  #open = true;

  constructor(messages: readonly Handed[]) {
    this.#messages = messages;
    this.#each = messages.map(() => undefined);
  }

  /** The batch in the form that a queue handler gets. */
  batch(queue: string, metrics: () => MessageBatchMetrics): MessageBatch {
    const say = (at: number, said: Said) => {
      if (this.#open && this.#all === undefined) this.#each[at] ??= said;
    };
    const sayAll = (said: Said) => {
      if (this.#open) this.#all ??= said;
    };
    return {
      queue,
      messages: this.#messages.map(({ id, sentAt, body, attempts }, at) => ({
        id,
        timestamp: new Date(sentAt),
        body,
        attempts,
        ack: () => say(at, { ack: true }),
        retry: (options?: QueueRetryOptions) => say(at, { ack: false, delayMs: delayOf(options) }),
      })),
      get metadata() {
        return { metrics: metrics() };
      },
      ackAll: () => sayAll({ ack: true }),
      retryAll: (options?: QueueRetryOptions) => sayAll({ ack: false, delayMs: delayOf(options) }),
    };
  }

  /** Ends the batch. Messages without a settlement are acknowledged if the handler succeeded, and retried if it failed. */
  close(succeeded: boolean): Settled {
    this.#open = false;
    const rest = this.#all ?? (succeeded ? { ack: true } : { ack: false, delayMs: undefined });
    return {
      each: this.#each.map((said) => (said ? (said.ack ? "ack" : "retry") : rest.ack ? "ack" : "failed")),
      delayMs: this.#each.map((said = rest) => (said.ack ? undefined : said.delayMs)),
    };
  }
}

/** Returns the delay of a retry in milliseconds. Throws for a delay that a Cloudflare queue would also reject. */
function delayOf(options: QueueRetryOptions | undefined): number | undefined {
  const seconds = options?.delaySeconds;
  if (seconds === undefined) return undefined;
  if (typeof seconds !== "number" || !(seconds >= 0 && seconds <= MAX_DELAY_SECONDS))
    throw new TypeError(`A retry's delaySeconds must be 0 to ${MAX_DELAY_SECONDS}, not ${String(seconds)}.`);
  return seconds * 1000;
}
