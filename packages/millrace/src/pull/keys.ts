const SCHEMA = `
  CREATE TABLE IF NOT EXISTS pull_keys (key TEXT PRIMARY KEY, id TEXT NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID;`;

/** The unexpired idempotency keys of one queue, each with the id of its message. */
export class PullKeys {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  make(): void {
    this.#sql.exec(SCHEMA);
  }

  /** True if any key is stored. */
  get some(): boolean {
    return this.#sql.exec("SELECT 1 FROM pull_keys LIMIT 1").toArray().length > 0;
  }

  idOf(key: string, now: number): string | undefined {
    return this.#sql.exec<{ id: string }>("SELECT id FROM pull_keys WHERE key = ? AND until > ?", key, now).toArray()[0]?.id;
  }

  remember(key: string, id: string, until: number): void {
    this.#sql.exec("INSERT OR REPLACE INTO pull_keys (key, id, until) VALUES (?, ?, ?)", key, id, until);
  }

  /** Deletes expired keys. */
  forget(now: number): void {
    this.#sql.exec("DELETE FROM pull_keys WHERE until <= ?", now);
  }
}
