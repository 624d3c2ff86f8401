/**
 * Combines the writes of many callers: while one write is in progress, callers gather for the next. A single caller does not wait, and many
 * callers share a few writes. Each write takes the data that callers have left in memory by then.
 */
export class SharedWrite {
  readonly #write: () => Promise<void>;
  #underWay: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(write: () => Promise<void>) {
    this.#write = write;
  }

  /** Resolves after a write that started after this call; rejects with that write's error. */
  done(): Promise<void> {
    this.#next ??= this.#after(this.#underWay);
    return this.#next;
  }

  async #after(before: Promise<void> | undefined): Promise<void> {
    await before?.catch(() => {});
    // Lets callers that waited for the previous write run first.
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
