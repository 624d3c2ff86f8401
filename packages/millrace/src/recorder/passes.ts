import { CLOCKS_APART_MS } from "../contract/patience.ts";

/** How long a replay is remembered at least. Replays ask only while their instance is younger than `FRESH_MS` by their own clock. */
const REMEMBERED_MS = 60_000;

/**
 * The recent replays, in the memory of the one object that all replays of an instance ask. Instances created before this memory existed may
 * have been replayed already.
 */
export class KnownPasses {
  #since = Date.now();
  #lately = new Map<string, string>();
  #before = new Map<string, string>();
  #turnedAt = this.#since;

  /** True if the replay is the first of its instance, also if it asks again. */
  isFirst(instanceId: string, pass: string, createdMs: number): boolean {
    const at = Date.now();
    // The object was created while the clock was ahead: use the current time.
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
