import { MillraceError } from "../contract/errors.ts";
import { platformId } from "../contract/ids.ts";
import type { RecorderClient } from "../recorder/client.ts";
import { patiently } from "./patiently.ts";

/** Which run of its instance a pass belongs to, as the row says when it is asked first; and what else that says. */
export class WhichRun {
  readonly #recorder: RecorderClient;
  readonly #instanceId: string;
  #number: Promise<number> | undefined;
  #undo: string | null = null;
  #complete = false;

  constructor(recorder: RecorderClient, instanceId: string) {
    this.#recorder = recorder;
    this.#instanceId = instanceId;
  }

  /** Which run: what the pass's first write found, or its first look. */
  number(): Promise<number> {
    this.#number ??= this.#recorder.runOf(this.#instanceId).then(
      ({ number, undo, complete }) => {
        this.#undo = undo;
        this.#complete = complete;
        return number;
      },
      (error) => {
        this.#number = undefined;
        throw error;
      },
    );
    return this.#number;
  }

  /** The pass's first write has found its run. */
  note(number: number): void {
    this.#number ??= Promise.resolve(number);
  }

  /** True for a pass that the platform makes of a complete run. */
  get isComplete(): boolean {
    return this.#complete;
  }

  /** Refuses to begin an effect in such a pass: what failed in it, and was caught, fails again. */
  assertNotComplete(): void {
    if (this.#complete) throw new MillraceError("not_retryable", "The run is complete: it does nothing any more.");
  }

  async assertNotUndone(): Promise<void> {
    await patiently(() => this.number());
    if (this.#undo !== null) throw new MillraceError("not_retryable", "The instance is undone: retry it, and it is done again.");
  }

  /**
   * Refuses a pass of an undo (its own id on the platform) that is none of the present one: what a retry has done again is not taken back.
   */
  async assertUndoes(own: string): Promise<void> {
    await patiently(() => this.number());
    if (this.#undo !== null && platformId(this.#instanceId, this.#undo) === own) return;
    throw new MillraceError("not_retryable", "The undo is over: the instance was retried since.");
  }
}
