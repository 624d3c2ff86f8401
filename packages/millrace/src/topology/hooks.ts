import { isFunction } from "../contract/declared.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { Draft } from "../contract/message.ts";
import { laneIn, type QueueDefinition } from "../contract/queue.ts";
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

/** A newly captured dead letter that is passed to a repair. */
export interface RepairableLetter {
  /** The error code of the dead letter, or `exhausted`. */
  readonly reason: string;
  /** The error message of the dead letter. */
  readonly error: string;
  readonly messageType: string | null;
  readonly attempts: number;
  /** A copy of the received message. The message has the fields of an envelope, but no field is validated. */
  readonly message: Readonly<Record<string, unknown>>;
}

/**
 * A known failure and its fix. The functions of a repair must be pure and fast. The result of `fix` is validated like an operator's
 * correction. The result must have the same tenant, key, source, kind and type as the message.
 */
export interface Repair {
  /**
   * The name of the repair, in lower case letters, digits and hyphens. The name appears on the dead letter, in metrics and in the audit.
   */
  readonly name: string;
  /** True for dead letters that this repair fixes. Only the first matching repair of a queue is tried. */
  readonly when: (letter: RepairableLetter) => boolean;
  /** Returns the whole repaired message. */
  readonly fix: (message: RepairableLetter["message"]) => unknown;
}

/** Validates the repairs of a queue. Errors: `config_invalid` for an invalid or repeated name, and for repairs of a lane. */
export function checkedRepairs({ name: queue }: QueueDefinition, repairs: readonly Repair[]): readonly Repair[] {
  const said = (what: string) => new MillraceError("config_invalid", `The consumer of "${queue}" has ${what}`);
  if (!Array.isArray(repairs) || !repairs.every((repair) => isFunction(repair?.when) && isFunction(repair.fix)))
    throw said("invalid repairs: use a list of { name, when, fix }, with functions for the last two.");
  const names = repairs.map(({ name }) => name);
  if (repairs.length > 0 && laneIn(queue) !== undefined)
    throw said("repairs, but a repaired message would lose its place in the lane: remove the repairs.");
  for (const name of names) {
    if (!/^[a-z][a-z0-9-]{0,63}$/.test(name)) throw said(`a repair named "${name}": use up to 64 lower case letters, digits and hyphens.`);
    if (names.filter((one) => one === name).length > 1) throw said(`two repairs named "${name}": rename one.`);
  }
  return repairs;
}
