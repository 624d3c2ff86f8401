import { backoffMs } from "../contract/duration.ts";
import { MAX_DELAY_SECONDS } from "../contract/queue.ts";
import type { Plan } from "./definition.ts";

/** For a message that is not done: the message's number, the count of its delivery attempts, and the due time of the next attempt. */
export type Delivered = [sequence: number, attempts: number, dueAt: number];

/** The progress of a lane: the lane's head, and the delivery attempts of messages that are not done. */
export interface Progress {
  /** The number of the first message that is not done. */
  head: number;
  /** The number of failures that the head itself caused. */
  failures: number;
  /** The head's earliest delivery in milliseconds since 1970; 0 for at once. */
  dueAt: number;
  /** Messages up to this number are handed out one at a time, so that each failure counts for the message that caused the failure. */
  aloneTo: number;
  delivered: Delivered[];
  /** The error of the head's last failure. */
  error: string | null;
  /** True if the head has used up its retries, so that the lane waits for an operator. */
  held: boolean;
  /** True if an operator has paused the lane. */
  paused: boolean;
  /**
   * The number of the first head that was handed out after the start of the object. If this message is still the head at the next start,
   * the message may have ended the object.
   */
  trying: number;
}

export const BEGINNING: Progress = {
  head: 0,
  failures: 0,
  dueAt: 0,
  aloneTo: 0,
  delivered: [],
  error: null,
  held: false,
  paused: false,
  trying: 0,
};

/** The result of a handler's call with a batch of messages. */
export interface Outcome {
  /** The messages' sequence numbers, without gaps. */
  sequences: readonly number[];
  settled: Settled;
  /** The error that the handler threw; null if it threw no error. */
  error: string | null;
}

export interface Step {
  progress: Progress;
  /** Number of messages that are done, from the head on. */
  done: number;
  /** True if the next message has used up its retries and becomes a dead letter. */
  parks: boolean;
}

/**
 * Computes the progress after a batch. The first messages of the batch, if any, are done. The next message failed or was part of a failed
 * batch.
 */
export function follow(before: Progress, { sequences, settled, error }: Outcome, plan: Plan, now: number, random?: () => number): Step {
  const firstBad = settled.each.findIndex((one) => one !== "ack");
  const done = firstBad === -1 ? sequences.length : firstBad;
  const head = (sequences[0] ?? before.head) + done;
  const handed = sequences.slice(done).map((sequence, at): Delivered => {
    const asked = settled.delayMs[done + at];
    return [sequence, attemptsOf(before, sequence) + 1, settled.each[done + at] === "ack" || asked === undefined ? 0 : now + asked];
  });
  const last = sequences.at(-1) ?? head;
  const delivered = [...handed, ...before.delivered.filter(([sequence]) => sequence > last)];
  const moved = advanced(before, head, delivered);
  if (firstBad === -1) return { progress: moved, done, parks: false };

  // If several messages failed as a whole batch, the message that caused the failure is unknown. Therefore each message is tried alone, and
  // no failure is counted yet.
  const open = settled.each.filter((one) => one === "failed").length;
  const isBlamed = settled.each[done] === "retry" || open === 1;
  const failures = (done > 0 ? 0 : before.failures) + (isBlamed ? 1 : 0);
  const aloneTo = Math.max(moved.aloneTo, isBlamed ? head : last);
  const said = error ?? "The handler asked for another try.";
  const failed = { ...moved, failures, aloneTo, error: said };
  const isExhausted = failures > plan.retries.limit;
  if (isExhausted && plan.onFailure === "park") return { progress: failed, done, parks: true };
  if (isExhausted && plan.onFailure === "hold") return { progress: { ...failed, dueAt: 0, held: true }, done, parks: false };
  const { initialMs, maxMs } = plan.retries;
  const backOffMs = backoffMs(Math.max(1, failures), isExhausted ? maxMs : initialMs, maxMs, random);
  const waitMs = settled.delayMs[done] ?? backOffMs;
  return { progress: { ...failed, dueAt: now + waitMs }, done, parks: false };
}

/** The progress with a new head. The failures, the error and the delays of the previous head are cleared. */
export function advanced(before: Progress, head: number, delivered = before.delivered): Progress {
  if (head === before.head) return { ...before, delivered, trying: 0 };
  const kept = delivered.filter(([sequence]) => sequence >= head);
  const dueAt = kept.find(([sequence]) => sequence === head)?.[2] ?? 0;
  return { ...BEGINNING, head, dueAt, aloneTo: before.aloneTo >= head ? before.aloneTo : 0, delivered: kept, paused: before.paused };
}

export function attemptsOf({ delivered }: Progress, sequence: number): number {
  return delivered.find(([one]) => one === sequence)?.[1] ?? 0;
}

/** The earliest time at which a message could be handed out as the head; 0 for at once. */
export function dueAtOf({ head, dueAt, delivered }: Progress, message: { sequence: number; dueAt: number }): number {
  // The due time of the head in the progress takes precedence. This time comes from the back-off or from an operator's retry.
  if (message.sequence === head && dueAt > 0) return dueAt;
  return Math.max(message.dueAt, delivered.find(([sequence]) => sequence === message.sequence)?.[2] ?? 0);
}

/** The progress after an operator has requested a retry. The head is due at once. */
export function triedNow(before: Progress): Progress {
  return { ...before, dueAt: 1, held: false };
}

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
