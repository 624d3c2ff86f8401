import { ROWS } from "./written-rows.ts";

/** What one run of an instance used of the platform, as its row keeps it: what is 0 or false is left out. */
export interface Spent {
  /** Steps, sleeps and waits that the last pass came by, each billed once. */
  readonly steps: number;
  /** How many of those were given up: a retry has them billed again. */
  readonly failed?: number;
  /** Rows that the app's own statements wrote, as D1 bills them, and those of caught failures. */
  readonly rows?: number;
  /** 1 where an outcome was found in the inbox, which does not say how many rows the app wrote with it. */
  readonly unsure?: 1;
  /** 1 for a run that takes back what others did: an instance of its own on the platform. */
  readonly undo?: 1;
}

/**
 * Counts what a pass uses of the platform. The pass that ends a run has come by all steps of that run, also by those that the platform
 * remembers of passes before it: so nothing of it has to be kept before the end.
 */
export class Spending {
  #steps = 0;
  #failed = 0;
  #rows = 0;
  #unsure = false;

  /** The pass asks the platform for a step, a sleep or a wait. */
  noteStep(): void {
    this.#steps++;
  }

  /** A step was given up. */
  noteFailed(): void {
    this.#failed++;
  }

  /** A guarded step has its outcome. */
  noteOutcome({ appRows }: { readonly appRows?: number }): void {
    if (appRows === undefined) this.#unsure = true;
    else this.#rows += appRows;
  }

  /** What the code had caught was written before an effect behind it. */
  noteCaught(): void {
    this.#rows += ROWS.caught;
  }

  /** What a run used so far, as JSON under its number. */
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
