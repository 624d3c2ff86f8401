/** The keys of the last minutes or seconds, each with the value that it was given first. */
export class Recent {
  #lately = new Map<string, string>();
  #before = new Map<string, string>();
  #turnedAt = 0;

  /** A key is remembered for at least `ms` milliseconds after its first call, and at most twice as long. */
  constructor(readonly ms: number) {}

  /** Returns the value of a known key. A new key gets the given value, and the result is undefined. */
  note(key: string, value: string): string | undefined {
    const at = Date.now();
    // A clock that was ahead must not keep keys for longer.
    if (at - this.#turnedAt > this.ms || at < this.#turnedAt) {
      this.#before = this.#lately;
      this.#lately = new Map();
      this.#turnedAt = at;
    }
    const known = this.#lately.get(key) ?? this.#before.get(key);
    if (known === undefined) this.#lately.set(key, value);
    return known;
  }
}
