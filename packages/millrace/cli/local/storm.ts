/** As many lines of one kind are told whole; the others are counted. */
const TOLD = 3;
const COUNTED_FOR_MS = 5000;
/** Behind so long a silence a kind is told whole again. */
const QUIET_MS = 60_000;
const MAX_KINDS = 500;

interface Kind {
  count: number;
  held: number;
  lastAt: number;
}

/** Keeps a terminal readable where the same happens many times: the first of a kind are told, of the others how many there were. */
export class Storm {
  readonly #kinds = new Map<string, Kind>();

  /** Tells one line of a kind (`whole`), or counts it; `counted` is told every few seconds with how many there were. */
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
