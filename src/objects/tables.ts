/**
 * An object's tables, made at its first write: an object that is only asked leaves nothing behind. Otherwise whoever guesses names
 * would fill the account with empty objects, which nothing ever removes.
 */
export class Tables {
  readonly #sql: SqlStorage;
  readonly #schema: string;
  #made: boolean;

  /** The schema makes what is not there, and changes nothing of what is. `first` is a table of it. */
  constructor(sql: SqlStorage, first: string, schema: string) {
    this.#sql = sql;
    this.#schema = schema;
    this.#made = sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", first).toArray().length > 0;
    // An object from before may lack a newer table.
    if (this.#made) sql.exec(schema);
  }

  /** False while nothing was ever written. */
  get made(): boolean {
    return this.#made;
  }

  /** Goes before a write, and outside its transaction: one that is rolled back would take the tables with it. */
  make(): void {
    if (this.#made) return;
    this.#sql.exec(this.#schema);
    this.#made = true;
  }
}
