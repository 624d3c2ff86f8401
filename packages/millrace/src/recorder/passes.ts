import { CLOCKS_APART_MS } from "../contract/patience.ts";

/**
 * Minimum time in milliseconds for which a replay is remembered. A replay calls `isFirst` only while its instance is younger than
 * `FRESH_MS`.
 */
const REMEMBERED_MS = 60_000;

/**
 * The recent replays, in the memory of a recorder. All replays of an instance ask the same recorder. Instances that were created before the
 * recorder's object may have been replayed already.
 */
export class KnownPasses {
  #since = Date.now();
  #lately = new Map<string, string>();
  #before = new Map<string, string>();
  #turnedAt = this.#since;

  /** True if the replay is the first replay of its instance, including a repeated call by the same replay. */
  isFirst(instanceId: string, pass: string, createdMs: number): boolean {
    const at = Date.now();
    // If the clock was ahead when the object was created, the current time replaces the time of the creation.
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
