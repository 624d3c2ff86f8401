/** The table, of the two tables of keys, that gets new keys, and the time from which the other table can be dropped. */
interface Turn {
  to: "even" | "odd";
  /** The keys of messages before this number are in the table that gets no new keys. */
  from: number;
  /** The time when all messages before `from` were done; null while one of these messages waits. */
  doneAt: number | null;
}

const EVEN = "CREATE TABLE IF NOT EXISTS even_keys (key TEXT PRIMARY KEY, id TEXT NOT NULL) STRICT, WITHOUT ROWID";
const ODD = "CREATE TABLE IF NOT EXISTS odd_keys (key TEXT PRIMARY KEY, id TEXT NOT NULL) STRICT, WITHOUT ROWID";

/**
 * The idempotency keys of a lane, each with its message id. A key costs one written row. Two tables alternate, because a dropped table
 * costs no written row, whereas a deleted key costs one written row. A key is stored for at least the configured time, and for at most
 * twice this time.
 */
export class KnownKeys {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  #turn: Turn | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
    this.#turn = storage.kv.get<Turn>("keys");
  }

  get any(): boolean {
    return this.#turn !== undefined;
  }

  /** Returns the id of the message with this key; undefined for an unknown key. */
  find(key: string): string | undefined {
    const find = "SELECT id FROM even_keys WHERE key = ?1 UNION ALL SELECT id FROM odd_keys WHERE key = ?1";
    return this.#turn && this.#sql.exec<{ id: string }>(find, key).toArray()[0]?.id;
  }

  add(key: string, id: string, now: number): void {
    if (!this.#turn) {
      this.#sql.exec(EVEN);
      this.#sql.exec(ODD);
      this.#put({ to: "even", from: 0, doneAt: now });
    }
    const isEven = this.#turn?.to === "even";
    this.#sql.exec(isEven ? "INSERT INTO even_keys (key, id) VALUES (?, ?)" : "INSERT INTO odd_keys (key, id) VALUES (?, ?)", key, id);
  }

  /** Records that all messages before this number are done. */
  done(head: number, now: number): void {
    if (this.#turn && this.#turn.doneAt === null && head >= this.#turn.from) this.#put({ ...this.#turn, doneAt: now });
  }

  /** The time from which keys can be deleted; undefined while no key can be deleted. */
  forgetsAt(rememberMs: number): number | undefined {
    return this.#turn?.doneAt == null ? undefined : this.#turn.doneAt + rememberMs;
  }

  /** Deletes the keys of messages that have been done for `rememberMs`. `next` is the number that the next message will get. */
  forget(rememberMs: number, { head, next, now }: { head: number; next: number; now: number }): void {
    const turn = this.#turn;
    const at = this.forgetsAt(rememberMs);
    if (!turn || at === undefined || at > now) return;
    const isEven = turn.to === "even";
    const newer = this.#sql.exec(isEven ? "SELECT 1 FROM even_keys LIMIT 1" : "SELECT 1 FROM odd_keys LIMIT 1").toArray();
    this.#sql.exec(isEven ? "DROP TABLE odd_keys" : "DROP TABLE even_keys");
    if (newer.length === 0) {
      this.#sql.exec(isEven ? "DROP TABLE even_keys" : "DROP TABLE odd_keys");
      this.#turn = undefined;
      this.#storage.kv.delete("keys");
      return;
    }
    this.#sql.exec(isEven ? ODD : EVEN);
    this.#put({ to: isEven ? "odd" : "even", from: next, doneAt: head >= next ? now : null });
  }

  #put(turn: Turn): void {
    this.#turn = turn;
    this.#storage.kv.put("keys", turn);
  }
}
