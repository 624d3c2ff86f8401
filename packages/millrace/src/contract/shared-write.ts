/**
 * One write for many callers: while one is under way the next gathers, so that a lone caller waits for nobody, and a crowd costs a few
 * writes instead of one each. What is written is whatever the callers have left in memory by then.
 */
export class SharedWrite {
  readonly #write: () => Promise<void>;
  #underWay: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(write: () => Promise<void>) {
    this.#write = write;
  }

  /** Resolves when a write is done that began after this call; rejects with what that write failed of. */
  done(): Promise<void> {
    this.#next ??= this.#after(this.#underWay);
    return this.#next;
  }

  async #after(before: Promise<void> | undefined): Promise<void> {
    await before?.catch(() => {});
    // Who came while that one was written is let in first.
    if (before) await scheduler.wait(0);
    this.#next = undefined;
    const write = this.#write();
    this.#underWay = write;
    try {
      await write;
    } finally {
      if (this.#underWay === write) this.#underWay = undefined;
    }
  }
}
