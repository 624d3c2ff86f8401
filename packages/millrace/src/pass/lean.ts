/** An attempt that takes longer goes on as a step of the platform's: there it is seen, ends at its time-out, and is known to a cancel. */
export const IN_PASS_MS = 1000;

/**
 * How far a pass goes without a step of the platform's: then the next guarded step is one. What a pass may compute and call the platform
 * counts from step to step (30 s of CPU, 10,000 subrequests), and it can end a pass that is not wanted any more only there.
 */
export const STRETCH = { steps: 50, ms: 30_000, calls: 1000 } as const;

/** Calls to the recorder that a lean step makes at most: it takes its key, keeps it alive, and records its outcome. */
const OWN_CALLS = 2;

/** The attempt at a step that a pass began itself: when, and whether it is the platform's by now. */
interface Begun {
  readonly at: number;
  readonly isHandedOver: boolean;
}

/** The steps that a pass takes itself, one stretch after the other. */
export class LeanSteps {
  readonly #begun = new Map<string, Begun>();
  #since = Date.now();
  #steps = 0;
  #calls = 0;

  /** False where the stretch is long enough: the next step is the platform's. */
  get goesOn(): boolean {
    return this.#steps < STRETCH.steps && this.#calls < STRETCH.calls && Date.now() - this.#since < STRETCH.ms;
  }

  /** The platform takes a step: the next stretch begins. */
  noteStep(): void {
    this.#since = Date.now();
    this.#steps = 0;
    this.#calls = 0;
  }

  /** A step's code calls somebody. */
  noteCall(): void {
    this.#calls++;
  }

  /** The pass begins an attempt itself. */
  begin(label: string): void {
    this.#steps++;
    this.#calls += OWN_CALLS;
    this.#begun.set(label, { at: Date.now(), isHandedOver: false });
  }

  /** The attempt goes on as the first one of a step of the platform's: what it still records is that step's. */
  handOver(label: string): void {
    const begun = this.#begun.get(label);
    if (begun) this.#begun.set(label, { ...begun, isHandedOver: true });
  }

  /** The attempt has ended: the next one is the platform's. */
  end(label: string): void {
    this.#begun.delete(label);
  }

  /** When the attempt at a step began that the pass has begun itself; null for one of the platform's. */
  beganAt(label: string): number | null {
    return this.#begun.get(label)?.at ?? null;
  }

  /** True while the attempt at a step is the pass's alone. */
  isOwn(label: string): boolean {
    return this.#begun.get(label)?.isHandedOver === false;
  }
}
