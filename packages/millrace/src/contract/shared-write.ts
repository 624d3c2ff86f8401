/**
 * Combines the writes of many callers. Callers that arrive while one write is in progress share the next write. A single caller does not
 * wait, and many callers share a few writes. Each write contains the data that callers have put into memory before it starts.
 */
export class SharedWrite {
  readonly #write: () => Promise<void>;
  #underWay: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(write: () => Promise<void>) {
    this.#write = write;
  }

  /** Resolves after a write that started after the call of this method; rejects with that write's error. */
  done(): Promise<void> {
    this.#next ??= this.#after(this.#underWay);
    return this.#next;
  }

  async #after(before: Promise<void> | undefined): Promise<void> {
    await before?.catch(() => {});
    // Callers that waited for the previous write run before the next write.
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
