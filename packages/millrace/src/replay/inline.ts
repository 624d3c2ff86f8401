import { CLAIMED, type RecordedClass } from "../store/inbox/classes.ts";

/**
 * Longest time of an inline attempt in milliseconds. A longer attempt continues as a platform step, which is visible, has a timeout and can
 * be cancelled.
 */
export const INLINE_MS = 1000;

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

export class InlineSteps {
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

type FirstAttempt<T> = { readonly result: T } | { readonly attempt: Promise<T> };

/**
 * Makes the first attempt at an inline step within the replay. If the attempt is slow, fails, is paused or has an unknown outcome, the step
 * continues as a platform step. A platform step can wait.
 */
export async function attemptInline<T>(inline: InlineSteps, label: string, make: () => Promise<T>): Promise<FirstAttempt<T>> {
  const slow = Promise.withResolvers<undefined>();
  const timer = setTimeout(slow.resolve, INLINE_MS, undefined);
  inline.begin(label);
  const attempt = make();
  const ended = attempt.then(
    (result) => (isParked(result) ? undefined : { result }),
    () => undefined,
  );
  const done = await Promise.race([ended, slow.promise]);
  clearTimeout(timer);
  if (done === undefined) {
    inline.handOver(label);
    return { attempt };
  }
  inline.end(label);
  return done;
}

function isParked(outcome: unknown): boolean {
  return typeof outcome === "object" && outcome !== null && ("inDoubt" in outcome || "held" in outcome);
}

/**
 * True if a step may run inline. False for an undoable effect that records only its outcome. If a run is cancelled during such an effect,
 * only a platform step shows that the effect began.
 */
export function goesInline(effect: { class: RecordedClass; undoable: boolean }): boolean {
  return !effect.undoable || effect.class === "commit" || CLAIMED.has(effect.class);
}
