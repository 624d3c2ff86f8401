/** A step's answer that knows whether the code waits for it: a failure that nobody would hear of must not end in silence. */
export class Answer<T> extends Promise<T> {
  /** What is made of it are ordinary promises. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  #hear: (() => void) | undefined;

  /** `hear` is called when the code waits for the answer, or gives it to something that does, such as `Promise.all`. */
  static of<T>(answer: Promise<T>, hear: () => void): Answer<T> {
    const own = new Answer<T>((resolve) => resolve(answer));
    // A failure of it is the run's to tell, not the runtime's.
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
