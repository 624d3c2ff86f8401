/**
 * Rows of each write of the engine, as D1 bills them: one for the table and one for each index entry that is added; a removed index entry
 * is free. A test compares each with D1's count.
 */
export const ROWS = {
  /** Acceptance, from outside or from an event: the row, its key, two lists and the keeper's index. */
  accepted: 5,
  /** One more for a payload in R2, which has its own index. */
  payloadByReference: 1,
  /** The list of deadlines, if it has one: at its acceptance, and at each change of its status, which is part of that list. */
  deadline: 1,
  /** For a callback URL: the list of callbacks, and the mark that the call is stored. The call itself is an instance. */
  called: 2,
  /** Its message was delivered again. */
  deliveredAgain: 1,
  /** The first recorded step sets the status to running. */
  running: 1,
  recorded: 1,
  claimed: 1,
  /** A claim ended without an outcome. */
  givenUp: 1,
  /** Caught failures, written before the next `keyed` or `natural` effect, sleep, wait, question or read. */
  caught: 1,
  /** An effect with an unknown outcome: its entry and the instance, each with a list. */
  inDoubt: 4,
  /** A message that a step emitted: its row, the relay's index, and its removal after its consumer has confirmed it. */
  message: 3,
  /** A wait is registered, and earlier events are searched. */
  waitAsked: 4,
  /** The event that it received. */
  signal: 2,
  /** A sleeping wait that received its event: the status, the event, and the wake-up. */
  waitSlept: 5,
  /** Its status while it waits for the event. */
  waiting: 1,
  /** A sleeping wait that timed out and woke up. */
  waitOver: 3,
  questionAsked: 4,
  /** An operator's answer, with its audit. */
  questionAnswered: 14,
  /** A question that timed out. */
  questionOver: 2,
  /** A run started by an operator's retry, with its audit. The instance leaves its failure cause. */
  retried: 16,
  /** A run started by an undo, likewise. */
  undone: 15,
  /** Removal by retention, with the key kept. Each entry, wait and question adds a row. */
  removed: 2,
  complete: 1,
  /** Includes the list of terminated instances. */
  terminated: 2,
  /** The keeper's index, for one more check; the lists of its workflow and its cause; the cause's count and its index entry. */
  errored: 7,
} as const;

/**
 * Rows read, approximately: per run (acceptance and end), per recorded step, and per further delivery of its message. A thousand of them
 * cost as much as one written row.
 */
export const READ = { run: 15, step: 10, deliveredAgain: 12 } as const;
