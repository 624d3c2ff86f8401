/** The guarded steps that a workflow's code has begun in this replay, including steps that the code does not await. */
export class GuardedSteps {
  readonly #begun = new Set<string>();
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #awaited = new Set<string>();
  readonly #failed = new Map<string, unknown>();

  begin(label: string, outcome: Promise<unknown>): void {
    this.#begun.add(label);
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
    return [...this.#begun].filter((label) => !this.#awaited.has(label));
  }

  failedUnheard(label: string): boolean {
    return this.#failed.has(label) && !this.#awaited.has(label);
  }
}
