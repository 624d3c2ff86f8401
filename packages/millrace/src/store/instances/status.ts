import { type OneOf, thoseThat } from "../../contract/declared.ts";
import { fragment, now } from "../../contract/sql.ts";

/** The properties of an instance status. */
interface StatusFacts {
  /**
   * The progress of the instance.
   * - `unseen`: no recorded step yet
   * - `resting`: waits for an event, a decision or a time
   * - `ended`: the run has ended, on the platform too
   * - `refused`: the instance was skipped finally, or the engine knows of no start
   */
  readonly stage: "unseen" | "running" | "resting" | "ended" | "refused";
  /**
   * How the instance continues: by events and time alone, by an operator's answer, retry or replay, or never. An undo by an operator does
   * not count as a continuation.
   */
  readonly goesOn: "by itself" | "by a person" | "no more";
  /**
   * How the instance ended: with success, with a failure that can be repaired, or because an operator gave the instance up. Null while the
   * instance is in progress.
   */
  readonly end: "success" | "given up" | "failure" | null;
}

/**
 * The statuses of an instance, each with its transitions. ARCHITECTURE.md has the diagram of the transitions. A test compares this table
 * and the diagram with the statements in this directory. Every set of statuses in code and statements is derived from this table.
 */
const STATUSES = {
  /**
   * The command is committed, and its message is in transit. The consumer, the first recorded step, the keeper, or an operator's stop ends
   * this status.
   */
  accepted: { stage: "unseen", goesOn: "by itself", end: null },
  /** The command was received from its queue, or was started without a queue. The first recorded step or the keeper ends this status. */
  queued: { stage: "unseen", goesOn: "by itself", end: null },
  /** The instance is in progress. A wait, an unknown outcome or the end of the run ends this status. */
  running: { stage: "running", goesOn: "by itself", end: null },
  /** The instance waits for an event, a decision or a time. The next recorded step or the decision ends this status. */
  waiting: { stage: "resting", goesOn: "by itself", end: null },
  /**
   * An operator has paused the instance, and only an operator resumes it. An effect that was in progress at the pause is recorded, and no
   * other effect starts.
   */
  paused: { stage: "resting", goesOn: "by a person", end: null },
  /** An effect has an unknown outcome. An operator resolves the unknown outcome. */
  in_doubt: { stage: "resting", goesOn: "by a person", end: null },
  /** The run has completed. An operator can undo the instance. Retention removes the instance later. */
  complete: { stage: "ended", goesOn: "no more", end: "success" },
  /**
   * The run has failed. An operator can retry or undo the instance. A later replay of the same run may succeed. The keeper revives the
   * instance if the platform still runs it.
   */
  errored: { stage: "ended", goesOn: "by a person", end: "failure" },
  /** An operator has undone or stopped the instance. An operator can retry the instance. */
  terminated: { stage: "ended", goesOn: "by a person", end: "given up" },
  /** The instance never started, because its message was refused. An operator replays or skips the dead letter. */
  dead: { stage: "refused", goesOn: "by a person", end: "failure" },
  /** An operator has closed the instance or skipped its dead letter. The status changes only if the instance's run started nevertheless. */
  skipped: { stage: "refused", goesOn: "no more", end: "given up" },
} as const satisfies Record<string, StatusFacts>;

export type InstanceStatus = keyof typeof STATUSES;

export const INSTANCE_STATUSES = Object.keys(STATUSES) as InstanceStatus[];

export type StatusSet = OneOf<InstanceStatus>;

const statusesThat = (is: (facts: StatusFacts) => boolean): StatusSet => thoseThat<StatusFacts, InstanceStatus>(STATUSES, is);

/** Statuses of instances that are in progress or have not started yet. */
export const UNDER_WAY = statusesThat(({ end }) => end === null);

/** Statuses without work in progress, unless an operator reopens the instance. */
export const OVER = statusesThat(({ end }) => end !== null);

/** Statuses without a recorded step. */
export const UNSEEN = statusesThat(({ stage }) => stage === "unseen");

/** Statuses of instances that are running, or about to run. */
export const WORKING = statusesThat(({ stage }) => stage === "unseen" || stage === "running");

/** Statuses of instances in progress with a recorded step, including waiting instances. */
export const BEGUN = statusesThat(({ stage }) => stage === "running" || stage === "resting");

/** Statuses of instances with a recorded step that continue without an operator. */
export const ON_ITS_WAY = statusesThat(({ stage, goesOn }) => (stage === "running" || stage === "resting") && goesOn === "by itself");

/** Statuses of instances that are idle until an event, a decision or a time. */
export const AT_REST = statusesThat(({ stage }) => stage === "resting");

/** Statuses of instances that continue without an operator. */
export const GOING_ON = statusesThat(({ goesOn }) => goesOn === "by itself");

/** Statuses of instances whose run has ended. The platform has the same names for these statuses. */
export const ENDED = statusesThat(({ stage }) => stage === "ended");

/** Statuses of instances without a known start, and of finally skipped instances. */
export const REFUSED = statusesThat(({ stage }) => stage === "refused");

/** Statuses of instances that are over without success. */
export const STOPPED = statusesThat(({ end }) => end === "failure" || end === "given up");

/** Statuses of instances that are over and need no operator. */
export const SETTLED = statusesThat(({ end }) => end === "success" || end === "given up");

/**
 * Statuses of instances that failed according to the engine's records. The platform may report another status, and an operator may repair
 * the instance.
 */
export const FAILED = statusesThat(({ end }) => end === "failure");

/** Statuses from which a retry starts the next run. */
export const RETRYABLE = statusesThat(({ stage, goesOn }) => stage === "ended" && goesOn === "by a person");

/** Statuses from which no retry, replay or answer can continue the instance. */
export const RUNS_NO_MORE = statusesThat(({ goesOn }) => goesOn === "no more");

/** Statuses in which no step is expected, so that a newly recorded step shows that the instance runs. */
export const AWAKENED = statusesThat(
  ({ stage, goesOn, end }) => (stage === "resting" && goesOn === "by itself") || stage === "refused" || end === "failure",
);

/**
 * The condition that an operator closed an instance. The close incremented the number of the instance's run. A command that was skipped
 * with its dead letter still has the number 1 of its first run, because that run may have started.
 */
export const IS_CLOSED = fragment("(millrace_instances.status = 'skipped' AND millrace_instances.run > 1)");

/** True for an instance that an operator has closed. */
export function isClosed({ status, run }: { status: InstanceStatus; run: number }): boolean {
  return status === "skipped" && run > 1;
}

/**
 * The status of a revived instance, or of an instance at the start of another run. The status is `in_doubt` if an effect has an unknown
 * outcome, because only an operator resolves an unknown outcome.
 */
export const AWAKE = fragment(`iif(EXISTS (SELECT 1 FROM millrace_inbox
  WHERE millrace_inbox.instance_id = millrace_instances.id AND millrace_inbox.state = 'in_doubt'),
      'in_doubt', 'running')`);

/**
 * The condition of the partial index `instances_stopped`. The text must equal the index's condition, so that the database uses the index.
 */
export const IS_INDEXED_AS_STOPPED = fragment(`status IN ('errored', 'terminated', 'dead', 'skipped', 'in_doubt', 'paused')`);

/**
 * The conditions of the partial indexes `instances_to_call` for ended instances and `instances_by_deadline` for instances in progress. Each
 * text must equal the condition of its index, so that the database uses the index.
 */
export const IS_INDEXED_AS_OVER = fragment(`status IN ('complete', 'errored', 'terminated', 'dead', 'skipped')`);
export const IS_INDEXED_AS_UNDER_WAY = fragment(`status NOT IN ('complete', 'errored', 'terminated', 'dead', 'skipped')`);

/**
 * The conditions of the partial indexes `instances_in_turn` for instances that wait for a slot of their workflow's `concurrency`, and
 * `instances_in_slot` for instances that occupy a slot.
 */
export const IS_INDEXED_AS_IN_TURN = fragment(`slot_turn IS NOT NULL AND status IN ('accepted', 'queued')`);

/** The condition that an instance is due and waits for a slot. */
export const WAITS_FOR_SLOT = fragment(`(${IS_INDEXED_AS_IN_TURN.fragment} AND slot_turn <= ${now.fragment})`);

/**
 * The due time after a cancel. A throttled command that is cancelled before its due time does not delay later commands of its key by more
 * than one period.
 */
export const DUE_AFTER_CANCEL = fragment(`iif(millrace_instances.flow->>'throttle' IS NULL, millrace_instances.due_at,
      min(millrace_instances.due_at, ${now.fragment}))`);

/**
 * The condition that an instance in progress has a deadline. The text must equal the condition of the partial index
 * `instances_by_deadline`, so that the database uses the index. An instance that is being undone has no deadline.
 */
export const HAS_DEADLINE = fragment(`must_end_by IS NOT NULL AND undo IS NULL AND ${IS_INDEXED_AS_UNDER_WAY.fragment}`);

/** The condition that an instance in progress has passed its deadline. */
export const IS_OVERDUE = fragment(`(must_end_by <= ${now.fragment} AND ${HAS_DEADLINE.fragment})`);
