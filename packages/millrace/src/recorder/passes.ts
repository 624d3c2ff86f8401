import { CLOCKS_APART_MS } from "../contract/patience.ts";

/** Minimum time in milliseconds for which a replay is remembered. A replay asks only while its instance is younger than `FRESH_MS`. */
const REMEMBERED_MS = 60_000;

/**
 * The recent replays, in the memory of the recorder that all replays of an instance ask. Instances created before this memory existed may
 * have been replayed already.
 */
export class KnownPasses {
  #since = Date.now();
  #lately = new Map<string, string>();
  #before = new Map<string, string>();
  #turnedAt = this.#since;

  /** True if the replay is the first of its instance, also when the same replay asks again. */
  isFirst(instanceId: string, pass: string, createdMs: number): boolean {
    const at = Date.now();
    // If the object was created while the clock was ahead, the current time replaces that time.
    this.#since = Math.min(this.#since, at);
    if (at - this.#turnedAt > REMEMBERED_MS || at < this.#turnedAt) {
      this.#before = this.#lately;
      this.#lately = new Map();
      this.#turnedAt = at;
    }
    const known = this.#lately.get(instanceId) ?? this.#before.get(instanceId);
    if (known === undefined) this.#lately.set(instanceId, pass);
    return (known ?? pass) === pass && createdMs > this.#since + CLOCKS_APART_MS;
  }
}
