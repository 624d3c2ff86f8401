import { BELONGS, FEEDS, type Feed } from "./feeds.ts";
import { atMost, type Range, size, without } from "./ranges.ts";

/** How a feed stands. */
interface Cursor {
  /** Up to here every fact was heard of, but for those in `missing`. */
  mark: number;
  /** The places up to `mark` that are not confirmed. */
  missing: readonly Range[];
  /** Grows with each replay: only a confirmation of what was sent since the last one counts. */
  epoch: number;
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
  CREATE TABLE IF NOT EXISTS feeds (
    feed TEXT PRIMARY KEY, mark INTEGER NOT NULL DEFAULT 0, missing TEXT NOT NULL DEFAULT '[]', epoch INTEGER NOT NULL DEFAULT 0,
    resent INTEGER NOT NULL DEFAULT 0, rounds INTEGER NOT NULL DEFAULT 0, began_at INTEGER NOT NULL DEFAULT 0,
    everything INTEGER NOT NULL DEFAULT 0
  ) STRICT, WITHOUT ROWID;
  INSERT OR IGNORE INTO feeds (feed) VALUES ${FEEDS.map((feed) => `('${feed}')`).join(", ")};`;

/** Ranges that one row keeps, about 20 bytes each. With more, the nearest are joined: what was confirmed between them is sent once more. */
const MAX_RANGES = 1000;
/** Behind every place. */
const END = Number.MAX_SAFE_INTEGER;

/**
 * A ledger's facts as the outbox of one feed: which of them its consumer has not confirmed. A row per feed instead of one per
 * message, because a confirmation names a hundred facts at once; ranges instead of places, because a replay makes all facts of a
 * ledger missing at once, and a value can hold 2 MB.
 */
export class Outbox {
  readonly #sql: SqlStorage;
  readonly #feed: Feed;

  /** The storage holds the ledger's table `facts`, and this class's own. */
  constructor(sql: SqlStorage, feed: Feed) {
    this.#sql = sql;
    this.#feed = feed;
  }

  /**
   * The consumer has these facts, as they were sent in this epoch: those of another one may be about rows that were dropped since. Places
   * that the ledger does not hold are not believed.
   */
  confirm(sequences: readonly number[], epoch: number, last: number): void {
    const cursor = this.#cursor();
    if (epoch !== cursor.epoch) return;
    const heard = sequences.filter((sequence) => sequence <= last).sort((a, b) => a - b);
    const mark = Math.max(cursor.mark, heard.at(-1) ?? 0);
    const missing = mark > cursor.mark ? [...cursor.missing, [cursor.mark + 1, mark] as const] : cursor.missing;
    const left = without(missing, heard);
    if (mark === cursor.mark && size(left) === size(missing)) return;
    this.#move(mark, atMost(MAX_RANGES, this.#trimmed(left)));
  }

  /** Places behind `after` that are not confirmed and were recorded by then, oldest first. */
  unconfirmed({ after = 0, recordedBy = END, limit }: { after?: number; recordedBy?: number; limit: number }): number[] {
    const found: number[] = [];
    for (const [first, last] of this.#open()) {
      if (found.length >= limit) break;
      if (last <= after) continue;
      const rows = this.#sql.exec<{ sequence: number }>(
        `SELECT sequence FROM facts WHERE sequence BETWEEN ? AND ? AND recorded_at <= ? AND ${BELONGS[this.#feed]}
          ORDER BY sequence LIMIT ?`,
        Math.max(first, after + 1),
        last,
        recordedBy,
        limit - found.length,
      );
      for (const { sequence } of rows) found.push(sequence);
    }
    return found;
  }

  /** How many facts are not confirmed, in a ledger that keeps them up to `last`. */
  count(last: number): number {
    const open = this.#open(last);
    if (BELONGS[this.#feed] === "true") return size(open);
    const within = `
      SELECT count(*) AS count FROM (SELECT value FROM json_each(?)) open
      CROSS JOIN facts ON sequence BETWEEN open.value->>0 AND open.value->>1 WHERE ${BELONGS[this.#feed]}`;
    return this.#sql.exec<{ count: number }>(within, JSON.stringify(open)).one().count;
  }

  /** Everything is confirmed: facts of other feeds need not be looked through again. */
  settle(last: number): void {
    if (this.#cursor().mark < last) this.#move(last, []);
  }

  /** Forgets what was confirmed behind a place, and will hear of nothing that was sent before now. */
  restart(after: number): void {
    this.#move(after, []);
    this.#sql.exec("UPDATE feeds SET epoch = epoch + 1 WHERE feed = ?", this.#feed);
    this.noteRound({ resent: 0, rounds: 0, beganAt: 0, everything: 1 });
  }

  /** Says what a confirmation has to say to count. */
  epoch(): number {
    return this.#cursor().epoch;
  }

  round(): Round {
    const query = "SELECT resent, rounds, began_at AS beganAt, everything FROM feeds WHERE feed = ?";
    return this.#sql.exec(query, this.#feed).one() as unknown as Round;
  }

  noteRound({ resent, rounds, beganAt, everything }: Round): void {
    this.#sql.exec(
      "UPDATE feeds SET resent = ?, rounds = ?, began_at = ?, everything = ? WHERE feed = ?",
      resent,
      rounds,
      beganAt,
      everything,
      this.#feed,
    );
  }

  #cursor(): Cursor {
    const query = "SELECT mark, missing, epoch FROM feeds WHERE feed = ?";
    const { mark, missing, epoch } = this.#sql.exec<{ mark: number; missing: string; epoch: number }>(query, this.#feed).one();
    return { mark, missing: JSON.parse(missing) as Range[], epoch };
  }

  /** All places that are not confirmed, also those that were never heard of. */
  #open(last = END): Range[] {
    const { mark, missing } = this.#cursor();
    return mark < last ? [...missing, [mark + 1, last]] : [...missing];
  }

  /** Ranges that begin and end with a fact of this feed: those that hold none say nothing. */
  #trimmed(ranges: readonly Range[]): Range[] {
    const belongs = BELONGS[this.#feed];
    if (belongs === "true") return [...ranges];
    const at = (order: "ASC" | "DESC") => `
      SELECT sequence FROM facts WHERE sequence BETWEEN open.value->>0 AND open.value->>1 AND ${belongs}
      ORDER BY sequence ${order} LIMIT 1`;
    const query = `SELECT (${at("ASC")}) AS first, (${at("DESC")}) AS last FROM json_each(?) open`;
    const rows = this.#sql.exec<{ first: number | null; last: number | null }>(query, JSON.stringify(ranges));
    return [...rows].flatMap(({ first, last }) => (first === null || last === null ? [] : [[first, last] as const]));
  }

  /** Whoever confirms is alive: what is still missing is sent again after the first pause. */
  #move(mark: number, missing: readonly Range[]): void {
    this.#sql.exec("UPDATE feeds SET mark = ?, missing = ?, rounds = 0 WHERE feed = ?", mark, JSON.stringify(missing), this.#feed);
  }
}
