/**
 * The promise that a step returns. The promise records whether the code awaits the promise, because a failure that the code ignores must
 * still fail the run.
 */
export class Answer<T> extends Promise<T> {
  /** A promise that then() returns is an ordinary promise. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  #hear: (() => void) | undefined;

  /** `hear` is called when the code awaits the promise, or passes it to a combinator such as `Promise.all`. */
  static of<T>(answer: Promise<T>, hear: () => void): Answer<T> {
    const own = new Answer<T>((resolve) => resolve(answer));
    // The run reports a failure of the step, so that the runtime must not report an unhandled rejection.
    own.then(undefined, () => undefined);
    own.#hear = hear;
    return own;
  }

  // biome-ignore lint/suspicious/noThenProperty: a promise has one
  override then<A = T, B = never>(
    done?: ((value: T) => A | PromiseLike<A>) | null,
    failed?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#hear?.();
    return super.then(done, failed);
  }
}
