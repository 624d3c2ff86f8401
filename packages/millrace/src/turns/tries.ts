/** How often the message in front of a lane has failed of itself, on disk: its deliveries are more, where something else failed. */
export class Tries {
  readonly #kv: SyncKvStorage;

  constructor(kv: SyncKvStorage) {
    this.#kv = kv;
  }

  /** The tries that a message has had, the one that is under way included. */
  of({ id }: Pick<Message, "id">): number {
    const kept = this.#kv.get<{ id: string; failures: number }>("tries");
    return 1 + (kept?.id === id ? kept.failures : 0);
  }

  /** A try of a message has failed. */
  failed(message: Pick<Message, "id">): void {
    this.#kv.put("tries", { id: message.id, failures: this.of(message) });
  }

  /** It has all its tries again. */
  forget(): void {
    this.#kv.delete("tries");
  }
}
