/** The platform usage of one run, as stored in the row of the run's instance. Values of 0 or false are omitted. */
export interface Spent {
  /** Steps, sleeps and waits of the last replay, each billed once. */
  readonly steps: number;
  /** The number of steps of the last replay that failed for good. A retry of the instance is billed for these steps again. */
  readonly failed?: number;
  /** Number of rows that the app's own statements wrote, as D1 bills rows, plus the rows for caught failures. */
  readonly rows?: number;
  /** 1 if the run found an outcome in the inbox, because the inbox does not contain the number of rows that the app wrote. */
  readonly unsure?: 1;
  /** 1 for an undo, which is a separate instance on the platform. */
  readonly undo?: 1;
}

/**
 * Counts the platform usage of a replay. The replay that ends a run executes all steps of that run, including the steps whose results the
 * platform returns from earlier replays. Therefore no counts are stored before the end of a run.
 */
export class Spending {
  #steps = 0;
  #failed = 0;
  #rows = 0;
  #unsure = false;

  /** Counts a step, a sleep or a wait. */
  noteStep(): void {
    this.#steps++;
  }

  /** Counts a step that failed for good. */
  noteFailed(): void {
    this.#failed++;
  }

  /** Counts the outcome of a guarded step. */
  noteOutcome({ appRows }: { readonly appRows?: number }): void {
    if (appRows === undefined) this.#unsure = true;
    else this.#rows += appRows;
  }

  /** Counts a record of caught failures that was written before a later effect. */
  noteCaught(): void {
    this.#rows += ROWS.caught;
  }

  /** Counts a stored report of progress. */
  noteReport(): void {
    this.#rows += ROWS.report;
  }

  /** Counts a record that adds tags to the instance. The rows of the tags are counted by the instance's tags. */
  noteTagged(): void {
    this.#rows += ROWS.report;
  }

  /** The usage of a run so far, as JSON with the run's number as key. `began`: the start of the replay. */
  of(run: number, undoes: boolean, began: number): string {
    const spent: Spent & { began: number } = {
      began,
      steps: this.#steps,
      ...(this.#failed > 0 && { failed: this.#failed }),
      ...(this.#rows > 0 && { rows: this.#rows }),
      ...(this.#unsure && { unsure: 1 }),
      ...(undoes && { undo: 1 }),
    };
    return JSON.stringify({ [run]: spent });
  }
}

/**
 * The rows that each write of the engine costs, as D1 bills rows: one for the table and one for each added index entry. A removed index
 * entry is free. A test compares each number with D1's count.
 */
export const ROWS = {
  /** The acceptance of a command, or of an event's consequence: the row, its key, two lists and the keeper's index. */
  accepted: 5,
  /** A payload in R2 adds one row, because an index contains references to payloads. */
  payloadByReference: 1,
  /** A deadline adds one row to the list of deadlines at the acceptance, and one row at each change of the status. */
  deadline: 1,
  /** A delay adds one row to the list of delayed commands. */
  delayed: 1,
  /** A tag adds one row at the acceptance, and one row at the removal. */
  tag: 1,
  /**
   * A callback URL adds two rows: an entry in the list of callbacks, and the record that the call is stored. The call itself is an
   * instance.
   */
  called: 2,
  /** A further delivery of the instance's message. */
  deliveredAgain: 1,
  /** The first recorded step sets the status to running. */
  running: 1,
  recorded: 1,
  claimed: 1,
  /** A claim whose effect ended without an outcome. */
  givenUp: 1,
  /** The record of caught failures, written before the next `keyed` or `natural` effect, sleep, wait, question or read. */
  caught: 1,
  /** A report of a step's progress. A step stores at most one report per second. */
  report: 1,
  /** An effect with an unknown outcome: the rows of its entry and of the instance, each with an index. */
  inDoubt: 4,
  /** A message that a step emitted: the outbox row, the relay's index, and the removal after the consumer has confirmed the message. */
  message: 3,
  /** The registration of a wait, with a search of earlier events. */
  waitAsked: 4,
  /** The rows that record an event which a wait received. */
  signal: 2,
  /** A sleeping wait that received its event: rows for the status, the event, and the wake-up. */
  waitSlept: 5,
  /** The change of an instance's status when the instance begins to wait for an event. */
  waiting: 1,
  /** A sleeping wait that timed out and woke up. */
  waitOver: 3,
  questionAsked: 4,
  /** An operator's answer to an approval, with its audit. */
  questionAnswered: 14,
  /** A question that timed out. */
  questionOver: 2,
  /** A run started by an operator's retry, with its audit. The instance is removed from the list of its failure cause. */
  retried: 16,
  /** A run started by an undo, with its audit. */
  undone: 15,
  /** The removal of an instance by retention, which leaves a tombstone of its key. Each entry, wait and question adds a row. */
  removed: 2,
  complete: 1,
  /** The end of a terminated instance, with its entry in the list of terminated instances. */
  terminated: 2,
  /**
   * The end of an errored instance: the keeper's index for one more check, the lists of the workflow and the cause, and the cause's count
   * with an index entry.
   */
  errored: 7,
} as const;

/**
 * The approximate number of rows that D1 reads: per run (acceptance and end), per recorded step, and per further delivery of the message. A
 * thousand read rows cost as much as one written row.
 */
export const READ = { run: 15, step: 10, deliveredAgain: 14 } as const;
