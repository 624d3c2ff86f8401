/**
 * How many rows each write of the engine costs, as D1 bills them: a row for the table and one for each entry that an index gets by it;
 * what leaves an index is free. A test holds each against what D1 counts.
 */
export const ROWS = {
  /** Accepted, or taken in from an event: the row, its key, two lists and the keeper's line. */
  accepted: 5,
  /** One more where the payload is in R2, which has an index of its own. */
  payloadByReference: 1,
  /** The list of deadlines, where it has one: at its acceptance, and at each change of its status, which that list depends on. */
  deadline: 1,
  /** Its address is to hear of an end: the list of those, and the mark that its call is kept. The call itself is an instance. */
  called: 2,
  /** Its message came once more. */
  deliveredAgain: 1,
  /** The first recorded step says that it runs. */
  running: 1,
  recorded: 1,
  claimed: 1,
  /** A claim ended without an outcome. */
  givenUp: 1,
  /** What code has caught, before the first `keyed` or `natural` effect behind it, or before the first sleep, wait, question or read. */
  caught: 1,
  /** An effect in doubt: its entry and the instance, each with a list. */
  inDoubt: 4,
  /** A message that a step emitted: the row and the relay's line; its removal, once its consumer has it. */
  message: 3,
  /** A wait is registered, and looks for an event that came before it. */
  waitAsked: 4,
  /** The event that it took. */
  signal: 2,
  /** It fell asleep: the status, the event given to it, and its awakening. */
  waitSlept: 5,
  /** Its status while the event has not come. */
  waiting: 1,
  /** It fell asleep, its time was over, and it awoke. */
  waitOver: 3,
  questionAsked: 4,
  /** A person's answer, with its audit. */
  questionAnswered: 14,
  /** Its time was over. */
  questionOver: 2,
  /** A run began by an operator's retry, with its audit. It leaves its cause. */
  retried: 16,
  /** The same of an undo. */
  undone: 15,
  /** Retention removes it and keeps its key: beside these two, a row for each entry, wait and question. */
  removed: 2,
  complete: 1,
  /** The list of what stopped as well. */
  terminated: 2,
  /** The keeper's line, because it looks once more; its workflow's and its cause's list, and the cause's count with its place in a list. */
  errored: 7,
} as const;

/** Rows read, roughly: by acceptance and end, and by each recorded step. A thousand of them cost what one written row does. */
export const READ = { run: 15, step: 10 } as const;
