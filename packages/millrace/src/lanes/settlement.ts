import { MAX_DELAY_SECONDS } from "../contract/queue.ts";

/** A message of a lane, as its handler is given it. */
export interface Handed {
  sequence: number;
  id: string;
  sentAt: number;
  body: unknown;
  /** Which delivery this is, 1 for the first. */
  attempts: number;
}

/** How a batch was settled: in the order of its messages. */
export interface Settled {
  /** `ack`: done; `retry`: its own retry was called; `failed`: the batch's was, or the handler failed. */
  each: ("ack" | "retry" | "failed")[];
  /** Milliseconds that a retry asked to wait for, by message. */
  delayMs: (number | undefined)[];
}

type Said = { ack: true } | { ack: false; delayMs: number | undefined };

/**
 * The settlements of one batch, as a queue's are: the first one of a message wins, and the first one of the whole batch, for what its
 * messages have not said themselves. Once it is closed nothing is heard any more.
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

  /** The batch that a queue's handler takes. */
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

  /** Closes it. What nobody settled is acknowledged when the handler succeeded, and tried again when it failed. */
  close(succeeded: boolean): Settled {
    this.#open = false;
    const rest = this.#all ?? (succeeded ? { ack: true } : { ack: false, delayMs: undefined });
    return {
      each: this.#each.map((said) => (said ? (said.ack ? "ack" : "retry") : rest.ack ? "ack" : "failed")),
      delayMs: this.#each.map((said = rest) => (said.ack ? undefined : said.delayMs)),
    };
  }
}

/** What a queue refuses as a delay is refused here in the same place: where it is said. */
function delayOf(options: QueueRetryOptions | undefined): number | undefined {
  const seconds = options?.delaySeconds;
  if (seconds === undefined) return undefined;
  if (typeof seconds !== "number" || !(seconds >= 0 && seconds <= MAX_DELAY_SECONDS))
    throw new TypeError(`A retry's delaySeconds must be 0 to ${MAX_DELAY_SECONDS}, not ${String(seconds)}.`);
  return seconds * 1000;
}
