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

  /** Something is due at this time; undefined for nothing. */
  set(dueAt: number | undefined): void {
    const now = Date.now();
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = undefined;
    if (dueAt === undefined) return;
    const isSoon = dueAt - now <= FALLBACK_MS;
    if (isSoon && dueAt > now) this.#timer = setTimeout(this.#wake, dueAt - now);
    const at = isSoon ? now + FALLBACK_MS : dueAt;
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
