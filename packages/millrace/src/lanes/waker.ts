/**
 * Maximum time in milliseconds from the due time of work to the object's alarm. The alarm is needed because a timer in memory can be lost
 * at any time.
 */
const FALLBACK_MS = 10_000;

/**
 * Wakes an object when work is due. The object always has an alarm for the work. If the work is due within 10 s, the object also has a
 * timer in memory. Setting an alarm costs a written row, so that an alarm that is early enough is not changed.
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
   * Schedules the wake-up for the given due times. Work that is already due needs no timer, because this work is already in progress. The
   * timer is set for the next due time, and the alarm for the earliest of all due times.
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
    // If the write of the alarm fails, the object is reset, and the response that waits for the write fails.
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
