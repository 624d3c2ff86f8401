import type { LaneName } from "./lane-name.ts";
import { attemptsOf, dueAtOf } from "./progress.ts";
import type { LaneStorage } from "./storage.ts";

/** How a lane stands. Times are milliseconds since 1970. */
export interface LaneLook extends LaneName {
  /** Messages that wait, the one that is being handled included. */
  depth: number;
  oldestAt: number | null;
  /** `retrying`: the head has failed and will be tried again; `delayed`: it is not due yet; `unknown`: no code of this name is deployed. */
  state: "empty" | "moving" | "retrying" | "delayed" | "paused" | "held" | "unknown";
  /** Why it stands still, as people read it; null when it does not. */
  why: string | null;
  head: LaneHead | null;
  /** Dead letters that are kept here. */
  letters: number;
}

export interface LaneHead {
  id: string;
  idempotencyKey: string | null;
  sentAt: number;
  /** Deliveries that it had; one that is under way is not among them. */
  attempts: number;
  /** Its own failures. */
  failures: number;
  error: string | null;
  /** When it is tried next; null when now, or when a person must say so. */
  nextAt: number | null;
}

/** A message that waits. */
export interface WaitingMessage {
  /** Its place: what `after` of the next page says. */
  sequence: number;
  id: string;
  idempotencyKey: string | null;
  sentAt: number;
  attempts: number;
  /** Not handed out before; null for as soon as it is its turn. */
  dueAt: number | null;
  body: unknown;
}

interface Around {
  /** True when the object has code for the lane. */
  isKnown: boolean;
  /** Messages that the handler has. */
  handed: number;
}

/** How a lane stands. */
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
    retrying: `Its head has failed${progress.failures > 1 ? ` ${progress.failures} times` : ""}: ${progress.error}`,
    delayed: "Its head is not due yet.",
    paused: "A person has paused it.",
    held: `Its head has failed ${progress.failures} times, and the lane waits for a person: ${progress.error}`,
    unknown: `The code that is deployed has no lane "${name.lane}".`,
  }[state];
  return { ...name, depth: lane.depth, oldestAt: first?.sentAt ?? null, state, why, head: head ?? null, letters: lane.letters?.count ?? 0 };

  function stateOf(): LaneLook["state"] {
    if (!isKnown) return "unknown";
    if (progress.paused) return "paused";
    if (!first) return "empty";
    if (progress.held) return "held";
    if (nextAt === null || handed > 0) return "moving";
    return progress.error !== null ? "retrying" : "delayed";
  }
}

/** The messages that wait, in order, behind a place. */
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
