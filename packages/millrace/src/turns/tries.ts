/**
 * The stored number of failures that the head message of a lane itself caused. A message can have more deliveries, because other failures
 * also repeat them.
 */
export class Tries {
  readonly #kv: SyncKvStorage;

  constructor(kv: SyncKvStorage) {
    this.#kv = kv;
  }

  /** The number of attempts of a message, including the current one. */
  of({ id }: Pick<Message, "id">): number {
    const kept = this.#kv.get<{ id: string; failures: number }>("tries");
    return 1 + (kept?.id === id ? kept.failures : 0);
  }

  failed(message: Pick<Message, "id">): void {
    this.#kv.put("tries", { id: message.id, failures: this.of(message) });
  }

  /** Resets the number of failures. */
  forget(): void {
    this.#kv.delete("tries");
  }
}
