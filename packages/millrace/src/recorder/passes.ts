import { CLOCKS_APART_MS } from "../contract/patience.ts";

/** How long a pass is remembered at least: a pass asks only while its instance is younger than `FRESH_MS`, by its own clock. */
const REMEMBERED_MS = 60_000;

/**
 * The passes that have begun lately, in the memory of the one object that all passes of an instance ask. What was created before this
 * memory began may have been passed through already.
 */
export class KnownPasses {
  #since = Date.now();
  #lately = new Map<string, string>();
  #before = new Map<string, string>();
  #turnedAt = this.#since;

  /** A pass begins. True where it certainly is the first of its instance, which was created then; also where it asks again. */
  isFirst(instanceId: string, pass: string, createdMs: number): boolean {
    const at = Date.now();
    // Made while the clock was ahead: it has been there since now at least.
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
