/**
 * Longest time of an inline attempt in milliseconds. A longer attempt continues as a platform step, which is visible, has a timeout and can
 * be cancelled.
 */
export const IN_PASS_MS = 1000;

/**
 * Limits of consecutive inline steps, after which the next guarded step is a platform step. The platform limits CPU time (30 s) and
 * subrequests (10,000) between two platform steps, and can end a cancelled replay only at a platform step.
 */
export const STRETCH = { steps: 50, ms: 30_000, calls: 1000 } as const;

/** Number of calls to the recorder that an inline step makes: a claim and a record. */
const OWN_CALLS = 2;

interface Begun {
  readonly at: number;
  readonly isHandedOver: boolean;
}

export class LeanSteps {
  readonly #begun = new Map<string, Begun>();
  #since = Date.now();
  #steps = 0;
  #calls = 0;

  /** True if the next step may be inline; false at the limits of consecutive inline steps. */
  get goesOn(): boolean {
    return this.#steps < STRETCH.steps && this.#calls < STRETCH.calls && Date.now() - this.#since < STRETCH.ms;
  }

  noteStep(): void {
    this.#since = Date.now();
    this.#steps = 0;
    this.#calls = 0;
  }

  noteCall(): void {
    this.#calls++;
  }

  begin(label: string): void {
    this.#steps++;
    this.#calls += OWN_CALLS;
    this.#begun.set(label, { at: Date.now(), isHandedOver: false });
  }

  /** Records that an inline attempt continues as the first attempt of a platform step, which records all later changes of the attempt. */
  handOver(label: string): void {
    const begun = this.#begun.get(label);
    if (begun) this.#begun.set(label, { ...begun, isHandedOver: true });
  }

  end(label: string): void {
    this.#begun.delete(label);
  }

  beganAt(label: string): number | null {
    return this.#begun.get(label)?.at ?? null;
  }

  isOwn(label: string): boolean {
    return this.#begun.get(label)?.isHandedOver === false;
  }
}
