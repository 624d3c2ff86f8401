import { DurableObject } from "cloudflare:workers";
import { SharedWrite } from "../contract/shared-write.ts";

/** One add to a counter. An add with a key counts once. */
export interface Add {
  n: number;
  key?: string | undefined;
}

/** The sum of the adds in one minute. */
export interface MinuteCount {
  /** The minute, in minutes since 1970. */
  minute: number;
  n: number;
}

/**
 * The adds of one call to a counter. The call's promise resolves after the write, with a boolean for each add that is true if the add
 * counted.
 */
interface Call {
  readonly adds: readonly Add[];
  counts: boolean[];
}

const MINUTE_MS = 60_000;
const DAY_MINUTES = 1_440;
/** How long a counter remembers the key of an add: longer than the redelivery of a queue's message and the retry of a step. */
const KEY_MINUTES = 7 * DAY_MINUTES;
/** The first add after this many minutes merges old minutes and deletes old keys. */
const TIDY_MINUTES = 60;

/** The minute number of the row that contains the sum of all minutes before the last day. */
const BEFORE = 0;

/**
 * One shard of a counter. The shard has one row per minute of the last day, and one row for all earlier minutes. An add and its key are on
 * disk before the response.
 */
export class Counter extends DurableObject {
  #hasTables = false;
  #waiting: Call[] = [];
  readonly #disk = new SharedWrite(async () => {
    const calls = this.#waiting;
    this.#waiting = [];
    this.#write(calls);
    await this.ctx.storage.sync();
  });
  #tidiedAt = 0;

  /** Adds all numbers or none. Returns a boolean for each add: false if its key has counted before. */
  async add(adds: readonly Add[]): Promise<boolean[]> {
    const call: Call = { adds, counts: [] };
    this.#waiting.push(call);
    await this.#disk.done();
    return call.counts;
  }

  /** Writes the adds of several calls together, with one write for each minute's row. */
  #write(calls: readonly Call[]): void {
    const { sql } = this.ctx.storage;
    const minute = Math.floor(Date.now() / MINUTE_MS);
    this.ctx.storage.transactionSync(() => {
      if (!this.#exists()) {
        sql.exec("CREATE TABLE minutes (minute INTEGER PRIMARY KEY, n INTEGER NOT NULL)");
        sql.exec("CREATE TABLE keys (key TEXT PRIMARY KEY, minute INTEGER NOT NULL) WITHOUT ROWID");
      }
      let sum = 0;
      for (const call of calls) {
        call.counts = call.adds.map(({ key }) => key === undefined || this.#isNew(key, minute));
        sum += call.adds.reduce((so, { n }, index) => (call.counts[index] ? so + n : so), 0);
      }
      if (sum !== 0) {
        sql.exec("INSERT INTO minutes (minute, n) VALUES (?1, ?2) ON CONFLICT (minute) DO UPDATE SET n = n + excluded.n", minute, sum);
      }
      if (minute - this.#tidiedAt >= TIDY_MINUTES) this.#tidy(minute);
    });
  }

  /** The sum of all adds to this shard. */
  total(): number {
    if (!this.#exists()) return 0;
    return Number(this.ctx.storage.sql.exec("SELECT coalesce(sum(n), 0) AS n FROM minutes").one().n);
  }

  /** The sums of the minutes from a given minute on, for at most the last day. Minutes without adds are omitted. */
  minutes(from: number): MinuteCount[] {
    if (!this.#exists()) return [];
    const since = Math.max(from, Math.floor(Date.now() / MINUTE_MS) - DAY_MINUTES + 1);
    return this.ctx.storage.sql
      .exec<{ minute: number; n: number }>("SELECT minute, n FROM minutes WHERE minute >= ? ORDER BY minute", since)
      .toArray();
  }

  /** Deletes all sums and keys of this shard. */
  async erase(): Promise<void> {
    this.#hasTables = false;
    await this.ctx.storage.deleteAll();
  }

  #isNew(key: string, minute: number): boolean {
    const { rowsWritten } = this.ctx.storage.sql.exec(
      "INSERT INTO keys (key, minute) VALUES (?1, ?2) ON CONFLICT (key) DO NOTHING",
      key,
      minute,
    );
    return rowsWritten > 0;
  }

  #tidy(minute: number): void {
    const { sql } = this.ctx.storage;
    const [young, known] = [minute - DAY_MINUTES, minute - KEY_MINUTES];
    const old = Number(sql.exec("SELECT coalesce(sum(n), 0) AS n FROM minutes WHERE minute <= ?", young).one().n);
    const { rowsWritten } = sql.exec("DELETE FROM minutes WHERE minute <= ? AND minute > ?", young, BEFORE);
    if (rowsWritten > 0) sql.exec("INSERT OR REPLACE INTO minutes (minute, n) VALUES (?1, ?2)", BEFORE, old);
    sql.exec("DELETE FROM keys WHERE minute <= ?", known);
    this.#tidiedAt = minute;
  }

  /** An object that is only read creates no tables. */
  #exists(): boolean {
    this.#hasTables ||= this.ctx.storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'keys'").toArray().length > 0;
    return this.#hasTables;
  }
}
