import type { Posted } from "./message.ts";
import type { LaneSent } from "./storage.ts";

interface Waiting {
  posts: readonly Posted[];
  resolve: (sent: LaneSent[]) => void;
  reject: (error: unknown) => void;
}

/**
 * Keeps what many senders send at once by few writes: while one write is on its way to the disk, the next gathers. A lone sender never
 * waits for another.
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

  /** Keeps messages behind all that came before. The object's answers wait for the disk by themselves. */
  async take(posts: readonly Posted[]): Promise<LaneSent[]> {
    if (this.#isWriting) return new Promise((resolve, reject) => this.#waiting.push({ posts, resolve, reject }));
    const sent = this.#keep(posts);
    this.#isWriting = true;
    this.#storage.sync().then(
      () => this.#written(),
      // A write that fails resets the object, and with it all who wait.
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
