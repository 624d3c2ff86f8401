import type { Posted } from "./message.ts";
import type { LaneSent } from "./storage.ts";

interface Waiting {
  posts: readonly Posted[];
  resolve: (sent: LaneSent[]) => void;
  reject: (error: unknown) => void;
}

/**
 * Combines concurrent sends into few writes. While one write is flushed to disk, the next write collects messages. If no write is in
 * progress, a send does not wait.
 */
export class Intake {
  readonly #storage: DurableObjectStorage;
  readonly #keep: (posts: readonly Posted[]) => LaneSent[];
  #isWriting = false;
  #waiting: Waiting[] = [];

  constructor(storage: DurableObjectStorage, keep: (posts: readonly Posted[]) => LaneSent[]) {
    this.#storage = storage;
    this.#keep = keep;
  }

  /** Appends messages. The platform's output gate delays the response until the write is on disk. */
  async take(posts: readonly Posted[]): Promise<LaneSent[]> {
    if (this.#isWriting) return new Promise((resolve, reject) => this.#waiting.push({ posts, resolve, reject }));
    const sent = this.#keep(posts);
    this.#isWriting = true;
    this.#storage.sync().then(
      () => this.#written(),
      // A failed write resets the object, so that all waiting calls fail. Therefore this error needs no handler.
      () => undefined,
    );
    return sent;
  }

  #written(): void {
    this.#isWriting = false;
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    this.take(waiting.flatMap(({ posts }) => posts)).then(
      (sent) => {
        const answers = sent.values();
        for (const { posts, resolve } of waiting) resolve([...answers.take(posts.length)]);
      },
      (error) => {
        for (const { reject } of waiting) reject(error);
      },
    );
  }
}
