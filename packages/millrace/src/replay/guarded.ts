import { type Acting, caughtOf } from "./caught.ts";
import type { Unrecorded } from "./failure.ts";

/** The guarded steps that a workflow's code has begun in this replay, including steps that the code does not await. */
export class GuardedSteps {
  readonly #begun = new Map<string, Acting>();
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #awaited = new Set<string>();
  readonly #failed = new Map<string, unknown>();

  begin(step: Acting & { readonly label: string }, outcome: Promise<unknown>): void {
    this.#begun.set(step.label, step);
    this.#underWay.add(outcome);
    const release = () => void this.#underWay.delete(outcome);
    outcome.then(release, release);
  }

  noteAwaited(label: string): void {
    this.#awaited.add(label);
  }

  noteFailed(label: string, error: unknown): void {
    this.#failed.set(label, error);
  }

  /** Waits until each guarded step has an outcome or gets no further attempt. Throws the failure of a step that the code did not await. */
  async whenDone(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
    for (const [label, error] of this.#failed) if (!this.#awaited.has(label)) throw error;
  }

  /** The guarded steps that the code did not await. */
  get floating(): readonly string[] {
    return [...this.#begun.keys()].filter((label) => !this.#awaited.has(label));
  }

  /** The known status of a step's effect, from the error of the step's last attempt. */
  effectOf(label: string, error: unknown): Unrecorded | undefined {
    return error === undefined ? undefined : caughtOf(error, this.#begun.get(label)).effect;
  }

  failedUnheard(label: string): boolean {
    return this.#failed.has(label) && !this.#awaited.has(label);
  }
}
