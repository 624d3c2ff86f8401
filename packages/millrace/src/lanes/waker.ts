/** A lane that has work has an alarm at most this far ahead of it, in milliseconds: what is in memory alone can be lost at any point. */
const FALLBACK_MS = 10_000;

/**
 * Wakes an object when something is due: by a timer while it is in memory and that is soon, and always by its alarm. Setting an alarm is a
 * written row, so one that rings early enough stays as it is.
 */
export class Waker {
  readonly #storage: DurableObjectStorage;
  readonly #wake: () => void;
  #alarmAt: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(storage: DurableObjectStorage, wake: () => void) {
    this.#storage = storage;
    this.#wake = wake;
  }

  /**
   * Something is due at each of these times, if at any. What was due by now is under way: the timer is for what comes next, the alarm for
   * all of it.
   */
  set(times: readonly number[], now: number): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    const next = Math.min(...times.filter((time) => time > now));
    this.#timer = next - now <= FALLBACK_MS ? setTimeout(this.#wake, next - now) : undefined;
    if (times.length === 0) return;
    const first = Math.min(...times);
    const at = first - now <= FALLBACK_MS ? now + FALLBACK_MS : first;
    if (this.#alarmAt !== undefined && this.#alarmAt <= at) return;
    this.#alarmAt = at;
    // A write that fails resets the object, and the answer that waits for it.
    void this.#storage.setAlarm(at);
  }

  /** Wakes it by no timer any more. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** The alarm has rung: there is none any more. */
  rang(): void {
    this.#alarmAt = undefined;
  }
}
