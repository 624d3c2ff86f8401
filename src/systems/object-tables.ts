/**
 * The tables of a Durable Object. The tables are created at the object's first write, so that an object which is only read stores nothing.
 * If a read created tables, requests with invented names would create empty objects that are never removed.
 */
export class Tables {
  readonly #storage: DurableObjectStorage;
  readonly #schema: string;
  readonly #changes: readonly string[];
  #made: boolean;

  /**
   * `schema` creates missing tables, and does not change existing tables. `first` is the name of one of the tables. `changes` are
   * statements for changes of existing tables, such as a new column. Each change runs once in every object, in order, when the object
   * wakes. A new release may add changes, but must not edit or remove a change.
   */
  constructor(storage: DurableObjectStorage, first: string, schema: string, changes: readonly string[] = []) {
    this.#storage = storage;
    this.#schema = schema;
    this.#changes = changes;
    this.#made = storage.sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", first).toArray().length > 0;
    // The tables of an older object may not contain the newest tables and changes yet.
    if (this.#made) this.#bringUp();
  }

  /** True if the tables exist; false before the first write. */
  get made(): boolean {
    return this.#made;
  }

  /**
   * Creates the tables if needed. Call this method before a write and outside the write's transaction, because a rollback would remove the
   * tables too.
   */
  make(): void {
    if (this.#made) return;
    this.#bringUp();
    this.#made = true;
  }

  /** Deletes all data of the object, including its alarm. Returns true if the object had any data. */
  async erase(): Promise<boolean> {
    if (!this.#made) return false;
    this.#made = false;
    await this.#storage.deleteAlarm();
    await this.#storage.deleteAll();
    return true;
  }

  #bringUp(): void {
    const { sql } = this.#storage;
    if (this.#changes.length === 0) return void sql.exec(this.#schema);
    // A change and the count of changes are one transaction, so a change that fails is repeated as a whole.
    this.#storage.transactionSync(() => {
      sql.exec(this.#schema);
      sql.exec("CREATE TABLE IF NOT EXISTS schema_changes (id INTEGER PRIMARY KEY CHECK (id = 1), made INTEGER NOT NULL) STRICT");
      const made = sql.exec<{ made: number }>("SELECT made FROM schema_changes").toArray()[0]?.made ?? 0;
      if (made >= this.#changes.length) return;
      for (const change of this.#changes.slice(made)) sql.exec(change);
      sql.exec("INSERT OR REPLACE INTO schema_changes (id, made) VALUES (1, ?)", this.#changes.length);
    });
  }
}
