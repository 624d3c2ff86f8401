import type { Envelope } from "../contract/envelope.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { Draft } from "../contract/message.ts";
import { within } from "../contract/within.ts";

/** A dead letter that was given up. */
export interface SkippedLetter {
  id: string;
  queue: string;
  messageType: string | null;
  idempotencyKey: string | null;
  /** Why it was one. */
  reason: string;
  /** Why it was given up, and by whom; `retention` where its time was over. */
  because: string;
  actor: string;
  at: Date;
}

/** Functions of a deployment that are called when the way of a message ends. */
export interface Hooks {
  /**
   * Called with events marked `outbox: "sender"` that were taken in, or captured as dead letters, so that their senders (a Durable Object,
   * with its own storage) can forget them.
   */
  readonly onConfirmed?: (env: Cloudflare.Env, messages: readonly Envelope[]) => Promise<void>;
  /** Messages that are committed with the giving up of a dead letter, such as a fact for the books. */
  readonly onSkipped?: (letter: SkippedLetter) => readonly Draft[];
}

/** Senders that do not answer hold up no other message: they will hear it when they send again. */
const CONFIRM_LIMIT_MS = 10_000;

/**
 * Tells senders with an outbox of their own (`outbox: "sender"`) that their events are durable here. Never throws: a sender that does not
 * hear of it sends again.
 */
export async function confirmToSenders({ onConfirmed }: Hooks, env: object, taken: readonly Envelope[]): Promise<void> {
  const kept = taken.filter(({ outbox }) => outbox === "sender");
  if (kept.length === 0 || onConfirmed === undefined) return;
  await within(onConfirmed(env as Cloudflare.Env, kept), CONFIRM_LIMIT_MS).catch((error) =>
    logLine("warn", { log: "confirm", messages: kept.length, error: messageOf(error) }),
  );
}
