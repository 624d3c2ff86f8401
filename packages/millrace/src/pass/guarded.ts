/** The guarded steps that a workflow's code has begun in this pass, whether it waits for them or not. */
export class GuardedSteps {
  readonly #begun = new Set<string>();
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #awaited = new Set<string>();
  readonly #failed = new Map<string, unknown>();

  /** The code has begun a step, which is under way until this has settled. */
  begin(label: string, outcome: Promise<unknown>): void {
    this.#begun.add(label);
    this.#underWay.add(outcome);
    const release = () => void this.#underWay.delete(outcome);
    outcome.then(release, release);
  }

  /** The code waits for a step, or has something wait for it: it hears of its failure. */
  noteAwaited(label: string): void {
    this.#awaited.add(label);
  }

  /** A step failed for good. */
  noteFailed(label: string, error: unknown): void {
    this.#failed.set(label, error);
  }

  /** Until each has its outcome, or was given up. Throws what one failed of for which the code waited nowhere. */
  async whenDone(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
    for (const [label, error] of this.#failed) if (!this.#awaited.has(label)) throw error;
  }

  /** Steps for which the code waited nowhere. */
  get floating(): readonly string[] {
    return [...this.#begun].filter((label) => !this.#awaited.has(label));
  }

  /** True for a step that failed, and for which the code waited nowhere. */
  failedUnheard(label: string): boolean {
    return this.#failed.has(label) && !this.#awaited.has(label);
  }
}
