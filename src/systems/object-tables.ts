/**
 * An object's tables, made at its first write: an object that is only asked leaves nothing behind. Otherwise whoever guesses names
 * would fill the account with empty objects, which nothing ever removes.
 */
export class Tables {
  readonly #storage: DurableObjectStorage;
  readonly #schema: string;
  readonly #changes: readonly string[];
  #made: boolean;

  /**
   * The schema makes what is not there, and changes nothing of what is. `first` is a table of it. What it cannot say, such as a column
   * that a table gains, is a change: each is made once in every object, in order, when the object wakes. Changes are only ever added.
   */
  constructor(storage: DurableObjectStorage, first: string, schema: string, changes: readonly string[] = []) {
    this.#storage = storage;
    this.#schema = schema;
    this.#changes = changes;
    this.#made = storage.sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", first).toArray().length > 0;
    // An object from before may lack a newer table, or changes.
    if (this.#made) this.#bringUp();
  }

  /** False while nothing was ever written. */
  get made(): boolean {
    return this.#made;
  }

  /** Goes before a write, and outside its transaction: one that is rolled back would take the tables with it. */
  make(): void {
    if (this.#made) return;
    this.#bringUp();
    this.#made = true;
  }

  /** Removes all that the object keeps, its alarm too, for good. Answers whether there was anything. */
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
    // With the count in one transaction: a change that fails is made again, whole.
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
