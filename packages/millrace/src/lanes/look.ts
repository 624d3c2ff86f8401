import type { LaneName } from "./definition.ts";
import { attemptsOf, dueAtOf } from "./progress.ts";
import type { LaneStorage } from "./storage.ts";

/** The state of a lane. Times are milliseconds since 1970. */
export interface LaneLook extends LaneName {
  /** The number of waiting messages, including messages that the handler has. */
  depth: number;
  oldestAt: number | null;
  /** `retrying`: the head failed and will be retried; `delayed`: the head is not due yet; `unknown`: the lane's code is not deployed. */
  state: "empty" | "moving" | "retrying" | "delayed" | "paused" | "held" | "unknown";
  /** Why the lane does not proceed, as text for operators; null while the lane proceeds. */
  why: string | null;
  head: LaneHead | null;
  /** Number of dead letters. */
  letters: number;
  /** Size of the lane's storage in bytes. When the size exceeds `maxBytes`, the lane refuses messages. */
  bytes: number;
}

export interface LaneHead {
  id: string;
  idempotencyKey: string | null;
  sentAt: number;
  /** Completed deliveries. */
  attempts: number;
  /** The number of failures that this message itself caused. */
  failures: number;
  error: string | null;
  /** When the next delivery of the message is due. Null if the delivery is due at once, or if an operator must decide. */
  nextAt: number | null;
}

export interface WaitingMessage {
  /** The message's position in the lane. The position of the last message on a page is the value of `after` for the next page. */
  sequence: number;
  id: string;
  idempotencyKey: string | null;
  sentAt: number;
  attempts: number;
  /** The earliest delivery time of the message; null without a delay. */
  dueAt: number | null;
  body: unknown;
}

interface Around {
  /** True if the object has code for the lane. */
  isKnown: boolean;
  /** The count of messages that the handler is processing. */
  handed: number;
}

export function look(name: LaneName, lane: LaneStorage, { isKnown, handed }: Around): LaneLook {
  const { progress } = lane;
  const [first] = lane.messages(progress.head, 1);
  const dueAt = first ? dueAtOf(progress, first) : 0;
  const nextAt = dueAt > Date.now() && !progress.held && !progress.paused ? dueAt : null;
  const head = first && {
    id: first.id,
    idempotencyKey: first.key,
    sentAt: first.sentAt,
    attempts: attemptsOf(progress, first.sequence),
    failures: progress.failures,
    error: progress.error,
    nextAt,
  };
  const state = stateOf();
  const why = {
    empty: null,
    moving: null,
    retrying: `The lane's head has failed${progress.failures > 1 ? ` ${progress.failures} times` : ""}: ${progress.error}`,
    delayed: "The lane's head is not due yet.",
    paused: "An operator has paused the lane.",
    held: `The lane's head has failed ${progress.failures} times, and the lane waits for an operator: ${progress.error}`,
    unknown: `The code that is deployed has no lane "${name.lane}".`,
  }[state];
  const { depth, letters, bytes } = lane;
  return { ...name, depth, oldestAt: first?.sentAt ?? null, state, why, head: head ?? null, letters: letters?.count ?? 0, bytes };

  function stateOf(): LaneLook["state"] {
    if (!isKnown) return "unknown";
    if (progress.paused) return "paused";
    if (!first) return "empty";
    if (progress.held) return "held";
    if (nextAt === null || handed > 0) return "moving";
    return progress.error !== null ? "retrying" : "delayed";
  }
}

/** Returns waiting messages of a lane in order, after a position. */
export function waiting(lane: LaneStorage, after: number | undefined, limit: number): WaitingMessage[] {
  const { progress } = lane;
  const from = after === undefined ? progress.head : Math.max(progress.head, after + 1);
  return lane.messages(from, limit).map((message) => {
    const { sequence, id, key, sentAt, body } = message;
    const dueAt = dueAtOf(progress, message);
    const waitsUntil = dueAt > Date.now() ? dueAt : null;
    return { sequence, id, idempotencyKey: key, sentAt, attempts: attemptsOf(progress, sequence), dueAt: waitsUntil, body };
  });
}
