import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { pause } from "../proof/stage.ts";

/** The folder of local databases in Wrangler's persist folder. */
const KEPT_IN = "state/v3/d1/miniflare-D1DatabaseObject";

/** The SQLite busy timeout, for when the engine writes at the same moment. */
const TURN_MS = 200;

/** The engine's database as a file: read while the engine works, and while it is down; locked as by another process. */
export class Database {
  readonly #reader: DatabaseSync;
  readonly #locker: DatabaseSync;

  constructor(folder: string) {
    const kept = join(folder, KEPT_IN);
    const [name = ""] = readdirSync(kept).filter((one) => /^[0-9a-f]+\.sqlite$/.test(one));
    this.#reader = new DatabaseSync(join(kept, name), { readOnly: true, timeout: 5000 });
    // The prefix of a name is found by an index.
    this.#reader.exec("PRAGMA case_sensitive_like = ON");
    this.#locker = new DatabaseSync(join(kept, name), { timeout: 0 });
  }

  async rows<T = Record<string, unknown>>(sql: string, ...params: unknown[]): Promise<T[]> {
    return this.#reader.prepare(sql).all(...(params as SQLInputValue[])) as T[];
  }

  /** Locks the database for this duration: other connections can read, but not write. Returns the actual duration. */
  async lock(ms: number): Promise<number> {
    for (;;) {
      try {
        this.#locker.exec("BEGIN IMMEDIATE");
        break;
      } catch {
        await pause(TURN_MS / 20);
      }
    }
    const since = Date.now();
    try {
      await pause(ms);
      return Date.now() - since;
    } finally {
      this.#locker.exec("ROLLBACK");
    }
  }

  /** Changes rows as the passage of time would, without concurrent writers: waits for its turn. */
  async write(sql: string): Promise<void> {
    for (;;) {
      try {
        return this.#locker.exec(sql);
      } catch (error) {
        if (!String(error).includes("locked")) throw error;
        await pause(TURN_MS / 20);
      }
    }
  }

  copyTo(file: string): void {
    this.#reader.prepare("VACUUM INTO ?1").run(file);
  }

  close(): void {
    this.#reader.close();
    this.#locker.close();
  }
}
