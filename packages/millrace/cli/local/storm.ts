/** Maximum number of log lines of one kind that are printed. Further lines of this kind are only counted. */
const TOLD = 3;
const COUNTED_FOR_MS = 5000;
/** A log line is printed again if no log line of the same kind occurred for this time. */
const QUIET_MS = 60_000;
const MAX_KINDS = 500;

interface Kind {
  count: number;
  held: number;
  lastAt: number;
}

/**
 * Limits the number of log lines of one kind on a terminal. The first lines of a kind are printed, and later lines of this kind are
 * counted.
 */
export class Storm {
  readonly #kinds = new Map<string, Kind>();

  /**
   * Calls `whole` to print a log line, or only counts the line. `counted` is called every few seconds to print the number of counted lines.
   */
  take(name: string, whole: () => void, counted: (more: number) => void): void {
    const known = this.#kinds.get(name);
    const kind = known && (known.held > 0 || Date.now() - known.lastAt < QUIET_MS) ? known : { count: 0, held: 0, lastAt: 0 };
    kind.count++;
    kind.lastAt = Date.now();
    this.#kinds.delete(name);
    this.#kinds.set(name, kind);
    const [oldest] = this.#kinds.keys();
    if (this.#kinds.size > MAX_KINDS && oldest !== undefined) this.#kinds.delete(oldest);
    if (kind.count > TOLD) kind.held++;
    else whole();
    if (kind.held !== 1) return;
    setTimeout(() => {
      const { held } = kind;
      kind.held = 0;
      counted(held);
    }, COUNTED_FOR_MS);
  }
}
