/**
 * The stored count of failures that the head message of a lane caused. A message can have more deliveries than failures, because the
 * message is also delivered again after failures that it did not cause.
 */
export class Tries {
  readonly #kv: SyncKvStorage;

  constructor(kv: SyncKvStorage) {
    this.#kv = kv;
  }

  /** The count of attempts of a message, including the present attempt. */
  of({ id }: Pick<Message, "id">): number {
    const kept = this.#kv.get<{ id: string; failures: number }>("tries");
    return 1 + (kept?.id === id ? kept.failures : 0);
  }

  failed(message: Pick<Message, "id">): void {
    this.#kv.put("tries", { id: message.id, failures: this.of(message) });
  }

  /** Sets the count of failures to 0. */
  forget(): void {
    this.#kv.delete("tries");
  }
}
