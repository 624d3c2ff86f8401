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
   * The operator's reason for skipping the dead letter, and the operator; `retention` when the retention time of the dead letter was over.
   */
  because: string;
  actor: string;
  at: Date;
}

/** Functions of a deployment that are called at the end of a message's processing. */
export interface Hooks {
  /**
   * Called with events marked `outbox: "sender"` that were accepted or captured as dead letters, so that their senders (a Durable Object
   * with its own storage) can delete them.
   */
  readonly onConfirmed?: (env: Cloudflare.Env, messages: readonly Envelope[]) => Promise<void>;
  /** Returns the messages that are committed when a dead letter is skipped, such as a fact for a ledger. */
  readonly onSkipped?: (letter: SkippedLetter) => readonly Draft[];
}

/** Time limit for a sender's answer, so that it delays no other message; the sender is confirmed when it sends again. */
const CONFIRM_LIMIT_MS = 10_000;

/**
 * Confirms to senders with their own outbox (`outbox: "sender"`) that their events are stored. The function never throws: a sender without
 * a confirmation sends its events again.
 */
export async function confirmToSenders({ onConfirmed }: Hooks, env: object, taken: readonly Envelope[]): Promise<void> {
  const kept = taken.filter(({ outbox }) => outbox === "sender");
  if (kept.length === 0 || onConfirmed === undefined) return;
  await within(onConfirmed(env as Cloudflare.Env, kept), CONFIRM_LIMIT_MS).catch((error) =>
    logLine("warn", { log: "confirm", messages: kept.length, error: messageOf(error) }),
  );
}
