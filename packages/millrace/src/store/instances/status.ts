import { type OneOf, thoseThat } from "../../contract/one-of.ts";
import { fragment } from "../../contract/sql.ts";

/** What is true of a status. */
interface StatusFacts {
  /**
   * How far the instance is. `unseen`: no step of it was recorded yet · `running` · `resting`: until something comes · `ended`: its run
   * is over, on the platform too · `refused`: it never started, as far as known, or was given up for good.
   */
  readonly stage: "unseen" | "running" | "resting" | "ended" | "refused";
  /** What has it run on: time and events alone, a person's answer, retry or replay, or nothing. An undo only takes back. */
  readonly goesOn: "by itself" | "by a person" | "no more";
  /** How it is over: as was asked, as a person has decided, or by a failure that may yet be mended. Null while it is under way. */
  readonly end: "success" | "given up" | "failure" | null;
}

/**
 * The statuses of an instance, each with what moves it on. Their arrows are drawn in ARCHITECTURE.md; a test holds both against the
 * statements of this folder. Every set of them in the code, and every list in a statement, is made of what stands here.
 */
const STATUSES = {
  /** Committed, its message on the way. Its consumer, its first recorded step or the keeper moves it on; a person who stops it, too. */
  accepted: { stage: "unseen", goesOn: "by itself", end: null },
  /** Taken from its queue, or started past it. Its first recorded step or the keeper moves it on. */
  queued: { stage: "unseen", goesOn: "by itself", end: null },
  /** At work. A wait, a doubt or its end moves it on. */
  running: { stage: "running", goesOn: "by itself", end: null },
  /** Asleep until an event, an answer or a time comes. Its next recorded step moves it on, or the answer. */
  waiting: { stage: "resting", goesOn: "by itself", end: null },
  /** Stopped for now by a person, who moves it on. An effect that was under way then is recorded; no other begins. */
  paused: { stage: "resting", goesOn: "by a person", end: null },
  /** An effect may have happened, or not. A person moves it on, who says which. */
  in_doubt: { stage: "resting", goesOn: "by a person", end: null },
  /** Done. An operator moves it on, by an undo; retention removes it. */
  complete: { stage: "ended", goesOn: "no more", end: "success" },
  /**
   * Failed. An operator moves it on, by a retry or an undo; a later pass of the same run that succeeds; the keeper, where it runs all the
   * same.
   */
  errored: { stage: "ended", goesOn: "by a person", end: "failure" },
  /** Ended by a person: undone, or stopped. An operator moves it on, by a retry. */
  terminated: { stage: "ended", goesOn: "by a person", end: "given up" },
  /** Never started, because its message was refused. An operator moves it on, who replays or skips the dead letter. */
  dead: { stage: "refused", goesOn: "by a person", end: "failure" },
  /** Given up by an operator: closed, or with its dead letter. Only a run that began all the same moves it on. */
  skipped: { stage: "refused", goesOn: "no more", end: "given up" },
} as const satisfies Record<string, StatusFacts>;

export type InstanceStatus = keyof typeof STATUSES;

export const INSTANCE_STATUSES = Object.keys(STATUSES) as InstanceStatus[];

export type StatusSet = OneOf<InstanceStatus>;

const statusesThat = (is: (facts: StatusFacts) => boolean): StatusSet => thoseThat<StatusFacts, InstanceStatus>(STATUSES, is);

/** Something is at work, or will be. */
export const UNDER_WAY = statusesThat(({ end }) => end === null);

/** Nothing is at work, and nothing will be unless somebody moves the instance on. */
export const OVER = statusesThat(({ end }) => end !== null);

/** No step of it was recorded yet. */
export const UNSEEN = statusesThat(({ stage }) => stage === "unseen");

/** At work, or about to be. */
export const WORKING = statusesThat(({ stage }) => stage === "unseen" || stage === "running");

/** A step of it was recorded, and it is under way: it may wait for something. */
export const BEGUN = statusesThat(({ stage }) => stage === "running" || stage === "resting");

/** The same, and it goes on without a person. */
export const ON_ITS_WAY = statusesThat(({ stage, goesOn }) => (stage === "running" || stage === "resting") && goesOn === "by itself");

/** Nothing of it runs until something comes. */
export const AT_REST = statusesThat(({ stage }) => stage === "resting");

/** It goes on without a person. */
export const GOING_ON = statusesThat(({ goesOn }) => goesOn === "by itself");

/** Its run is over. The platform says so by the same words. */
export const ENDED = statusesThat(({ stage }) => stage === "ended");

/** It never started, as far as known, or was given up for good. */
export const REFUSED = statusesThat(({ stage }) => stage === "refused");

/** It is over and did not do what it was asked for. */
export const STOPPED = statusesThat(({ end }) => end === "failure" || end === "given up");

/** It is over, and nobody is expected to mend it. */
export const SETTLED = statusesThat(({ end }) => end === "success" || end === "given up");

/** It is over by what the machine believes: the platform may know better, and a person may mend it. */
export const FAILED = statusesThat(({ end }) => end === "failure");

/** A retry begins its next run. */
export const RETRYABLE = statusesThat(({ stage, goesOn }) => stage === "ended" && goesOn === "by a person");

/** No retry, replay or answer has it run on. */
export const RUNS_NO_MORE = statusesThat(({ goesOn }) => goesOn === "no more");

/** Its row does not expect a step now, and a recorded one shows that it runs. */
export const AWAKENED = statusesThat(
  ({ stage, goesOn, end }) => (stage === "resting" && goesOn === "by itself") || stage === "refused" || end === "failure",
);

/**
 * The condition that an instance was closed by an operator, which begins a number of its own, the last one. One that was given up with its
 * dead letter is in its first run: it may have begun all the same.
 */
export const IS_CLOSED = fragment("(millrace_instances.status = 'skipped' AND millrace_instances.run > 1)");

/** Whether one that stands so was closed. */
export function isClosed({ status, run }: { status: InstanceStatus; run: number }): boolean {
  return status === "skipped" && run > 1;
}

/**
 * What an instance is again that was believed over, or that begins another run: in doubt where a doubt was left, because only a person's
 * answer ends that.
 */
export const AWAKE = fragment(`iif(EXISTS (SELECT 1 FROM millrace_inbox
  WHERE millrace_inbox.instance_id = millrace_instances.id AND millrace_inbox.state = 'in_doubt'),
      'in_doubt', 'running')`);

/**
 * The condition of the index `instances_stopped`, in its very words: a partial index serves no other.
 */
export const IS_INDEXED_AS_STOPPED = fragment(`status IN ('errored', 'terminated', 'dead', 'skipped', 'in_doubt', 'paused')`);

/** That of the indexes `instances_to_call` and `instances_by_deadline`, the same way: the one has what is over, the other what is not. */
export const IS_INDEXED_AS_OVER = fragment(`status IN ('complete', 'errored', 'terminated', 'dead', 'skipped')`);
export const IS_INDEXED_AS_UNDER_WAY = fragment(`status NOT IN ('complete', 'errored', 'terminated', 'dead', 'skipped')`);
