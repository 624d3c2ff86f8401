import type { Envelope } from "../contract/envelope.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { Draft } from "../contract/message.ts";
import { within } from "../contract/within.ts";

/** A dead letter that an operator or retention has skipped. */
export interface SkippedLetter {
  id: string;
  queue: string;
  messageType: string | null;
  idempotencyKey: string | null;
  /** The error code of the dead letter. */
  reason: string;
  /**
   * The operator's reason for skipping the dead letter. The actor is the operator, or `retention` if the retention time of the dead letter
   * had passed.
   */
  because: string;
  actor: string;
  at: Date;
}

/** The functions of a deployment that the engine calls at the end of a message's processing. */
export interface Hooks {
  /**
   * Receives events with `outbox: "sender"` that were accepted or captured as dead letters. The event's sender, a Durable Object with its
   * own storage, can then delete the event.
   */
  readonly onConfirmed?: (env: Cloudflare.Env, messages: readonly Envelope[]) => Promise<void>;
  /** Returns the messages that are committed when a dead letter is skipped, such as a fact for a ledger. */
  readonly onSkipped?: (letter: SkippedLetter) => readonly Draft[];
}

/**
 * Time limit for a sender's answer, in milliseconds, so that a slow sender delays no other message. A sender that misses the limit is
 * notified again when it sends its events again.
 */
const CONFIRM_LIMIT_MS = 10_000;

/**
 * Confirms to senders with their own outbox (`outbox: "sender"`) that their events are stored. The function never throws, because a sender
 * without a confirmation sends its events again.
 */
export async function confirmToSenders({ onConfirmed }: Hooks, env: object, taken: readonly Envelope[]): Promise<void> {
  const kept = taken.filter(({ outbox }) => outbox === "sender");
  if (kept.length === 0 || onConfirmed === undefined) return;
  await within(onConfirmed(env as Cloudflare.Env, kept), CONFIRM_LIMIT_MS).catch((error) =>
    logLine("warn", { log: "confirm", messages: kept.length, error: messageOf(error) }),
  );
}
