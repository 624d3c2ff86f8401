/** How many log lines of one kind are printed before further lines are only counted. */
const TOLD = 3;
const COUNTED_FOR_MS = 5000;
/** A line is printed again if no line of its kind came for this time. */
const QUIET_MS = 60_000;
const MAX_KINDS = 500;

interface Kind {
  count: number;
  held: number;
  lastAt: number;
}

/** Limits the lines of one kind on a terminal: the first ones are printed, the others counted. */
export class Storm {
  readonly #kinds = new Map<string, Kind>();

  /** Prints a log line with `whole`, or counts it. `counted` prints the number of counted lines every few seconds. */
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
