import { BELONGS, FEEDS, type Feed } from "./feeds.ts";

/** How a feed stands. */
interface Cursor {
  /** Up to here every fact was heard of, but for those in `missing`. */
  mark: number;
  /** Facts up to `mark` that are not confirmed: as many as are under way, however many were confirmed since. */
  missing: number[];
}

/** The present round of sending again. */
export interface Round {
  /** Facts up to here were sent in it; 0 between two rounds. */
  resent: number;
  /** Rounds since a consumer last confirmed something. */
  rounds: number;
  /** When the last round began, in milliseconds; 0 when there was none. */
  beganAt: number;
  /** 1 when everything is to be sent, however young and whatever may still wait in the queue. */
  everything: 0 | 1;
}

/** How every feed stands: a row each, part of the ledger's tables. */
export const CURSORS = `
  CREATE TABLE IF NOT EXISTS cursors (
    feed TEXT PRIMARY KEY, mark INTEGER NOT NULL DEFAULT 0, missing TEXT NOT NULL DEFAULT '[]', resent INTEGER NOT NULL DEFAULT 0,
    rounds INTEGER NOT NULL DEFAULT 0, began_at INTEGER NOT NULL DEFAULT 0, everything INTEGER NOT NULL DEFAULT 0
  ) STRICT, WITHOUT ROWID;
  INSERT OR IGNORE INTO cursors (feed) VALUES ${FEEDS.map((feed) => `('${feed}')`).join(", ")};`;

/**
 * A ledger's facts as the outbox of one feed: which of them its consumer has not confirmed. A row per feed instead of one per
 * message, because a confirmation names a hundred facts at once.
 */
export class Outbox {
  readonly #sql: SqlStorage;
  readonly #feed: Feed;

  /** The storage holds the ledger's table `facts`, and this class's own. */
  constructor(sql: SqlStorage, feed: Feed) {
    this.#sql = sql;
    this.#feed = feed;
  }

  /** The consumer has these facts. Places that the ledger does not hold are not believed. */
  confirm(sequences: readonly number[], last: number): void {
    const { mark, missing } = this.#cursor();
    const heard = new Set(sequences);
    const reached = Math.max(mark, ...sequences.filter((sequence) => sequence <= last));
    const left = [...missing, ...this.#between(mark, reached)].filter((sequence) => !heard.has(sequence));
    if (reached === mark && left.length === missing.length) return;
    this.#move(reached, left);
  }

  /** Places behind `after` that are not confirmed and were recorded by then, oldest first. */
  unconfirmed({
    after = 0,
    recordedBy = Number.MAX_SAFE_INTEGER,
    limit,
  }: {
    after?: number;
    recordedBy?: number;
    limit: number;
  }): number[] {
    const { mark, missing } = this.#cursor();
    const rows = this.#sql.exec<{ sequence: number }>(
      `SELECT sequence FROM facts WHERE sequence IN (SELECT value FROM json_each(?1)) AND sequence > ?2 AND recorded_at <= ?3
       UNION ALL
       SELECT sequence FROM facts WHERE sequence > ?4 AND recorded_at <= ?3 AND ${BELONGS[this.#feed]}
       ORDER BY sequence LIMIT ?5`,
      JSON.stringify(missing),
      after,
      recordedBy,
      Math.max(mark, after),
      limit,
    );
    return [...rows].map(({ sequence }) => sequence);
  }

  /** How many facts are not confirmed. */
  count(): number {
    const { mark, missing } = this.#cursor();
    const behind = `SELECT count(*) AS count FROM facts WHERE sequence > ? AND ${BELONGS[this.#feed]}`;
    return missing.length + this.#sql.exec<{ count: number }>(behind, mark).one().count;
  }

  /** Everything is confirmed: facts of other feeds need not be looked through again. */
  settle(last: number): void {
    if (this.#cursor().mark < last) this.#move(last, []);
  }

  /** Forgets what was confirmed. */
  restart(): void {
    this.#move(0, []);
    this.noteRound({ resent: 0, rounds: 0, beganAt: 0, everything: 1 });
  }

  round(): Round {
    const query = "SELECT resent, rounds, began_at AS beganAt, everything FROM cursors WHERE feed = ?";
    return this.#sql.exec(query, this.#feed).one() as unknown as Round;
  }

  noteRound({ resent, rounds, beganAt, everything }: Round): void {
    this.#sql.exec(
      "UPDATE cursors SET resent = ?, rounds = ?, began_at = ?, everything = ? WHERE feed = ?",
      resent,
      rounds,
      beganAt,
      everything,
      this.#feed,
    );
  }

  #cursor(): Cursor {
    const row = this.#sql.exec<{ mark: number; missing: string }>("SELECT mark, missing FROM cursors WHERE feed = ?", this.#feed).one();
    return { mark: row.mark, missing: JSON.parse(row.missing) as number[] };
  }

  /** Whoever confirms is alive: what is still missing is sent again after the first pause. */
  #move(mark: number, missing: readonly number[]): void {
    this.#sql.exec("UPDATE cursors SET mark = ?, missing = ?, rounds = 0 WHERE feed = ?", mark, JSON.stringify(missing), this.#feed);
  }

  #between(mark: number, reached: number): number[] {
    const query = `SELECT sequence FROM facts WHERE sequence > ? AND sequence <= ? AND ${BELONGS[this.#feed]} ORDER BY sequence`;
    return [...this.#sql.exec<{ sequence: number }>(query, mark, reached)].map(({ sequence }) => sequence);
  }
}
