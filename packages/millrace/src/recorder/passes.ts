import { CLOCKS_APART_MS } from "../contract/patience.ts";
import { Recent } from "../contract/recent.ts";

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
  readonly #passes = new Recent(REMEMBERED_MS);

  /** True if the replay is the first replay of its instance, including a repeated call by the same replay. */
  isFirst(instanceId: string, pass: string, createdMs: number): boolean {
    const at = Date.now();
    // If the clock was ahead when the object was created, the current time replaces the time of the creation.
    this.#since = Math.min(this.#since, at);
    const known = this.#passes.note(instanceId, pass);
    return (known ?? pass) === pass && createdMs > this.#since + CLOCKS_APART_MS;
  }
}
