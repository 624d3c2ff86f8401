import { fragment } from "../../contract/sql.ts";

/**
 * The statuses of an instance, each with what moves it on. Their arrows are drawn in ARCHITECTURE.md; a test holds both against the
 * statements of this folder.
 */
export const INSTANCE_STATUSES = [
  /** Committed, its message on the way. Its consumer, its first recorded step or the keeper moves it on; a person who stops it, too. */
  "accepted",
  /** Taken from its queue, or started past it. Its first recorded step or the keeper moves it on. */
  "queued",
  /** At work. A wait, a doubt or its end moves it on. */
  "running",
  /** Asleep until an event, an answer or a time comes. Its next recorded step moves it on, or the answer. */
  "waiting",
  /** An effect may have happened, or not. A person moves it on, who says which. */
  "in_doubt",
  /** Done. An operator moves it on, by an undo; retention removes it. */
  "complete",
  /**
   * Failed. An operator moves it on, by a retry or an undo; a later pass of the same run that succeeds; the keeper, where it runs all the
   * same.
   */
  "errored",
  /** Ended by a person: undone, or stopped. An operator moves it on, by a retry. */
  "terminated",
  /** Never started, because its message was refused. An operator moves it on, who replays or skips the dead letter. */
  "dead",
  /** Given up by an operator, with its dead letter. Only a run that began all the same moves it on. */
  "skipped",
] as const;

export type InstanceStatus = (typeof INSTANCE_STATUSES)[number];

const ENDED: readonly InstanceStatus[] = ["complete", "errored", "terminated", "dead", "skipped"];

/** Statuses in which nothing is at work, and nothing will be unless somebody moves the instance on. */
export const OVER: ReadonlySet<unknown> = new Set(ENDED);

/** Statuses in which something is at work, or will be. */
export const UNDER_WAY: ReadonlySet<unknown> = new Set(INSTANCE_STATUSES.filter((status) => !OVER.has(status)));

/** The condition that a row of `instances` is under way. */
export const IS_UNDER_WAY = fragment(`status NOT IN ('complete', 'errored', 'terminated', 'dead', 'skipped')`);
