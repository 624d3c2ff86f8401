/** A lane with due work has an alarm within this many milliseconds, because timers in memory can be lost at any time. */
const FALLBACK_MS = 10_000;

/**
 * Wakes an object when work is due: by its alarm always, and by a timer if the work is due within 10 s and the object is in memory. Setting
 * an alarm costs a written row, so an alarm that is early enough is kept.
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
   * Schedules the wake-up for the given due times. Work that is due by now is in progress already. The timer is set for the next due time,
   * the alarm for all due times.
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
    // A failed write resets the object, and the response that waits for it fails.
    void this.#storage.setAlarm(at);
  }

  /** Cancels the timer. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Records that the alarm ran, so that no alarm is set now. */
  rang(): void {
    this.#alarmAt = undefined;
  }
}
