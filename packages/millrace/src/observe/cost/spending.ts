import { ROWS } from "./written-rows.ts";

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

  /** The usage of a run so far, as JSON with the run's number as key. */
  of(run: number, undoes: boolean): string {
    const spent: Spent = {
      steps: this.#steps,
      ...(this.#failed > 0 && { failed: this.#failed }),
      ...(this.#rows > 0 && { rows: this.#rows }),
      ...(this.#unsure && { unsure: 1 }),
      ...(undoes && { undo: 1 }),
    };
    return JSON.stringify({ [run]: spent });
  }
}
