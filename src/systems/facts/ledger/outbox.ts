import { BELONGS, FEEDS, type Feed } from "./feeds.ts";
import { atMost, type Range, size, without } from "./ranges.ts";

interface Cursor {
  /** The position up to which the consumer has confirmed all facts, except those in `missing`. */
  mark: number;
  /** The positions up to `mark` that the consumer has not confirmed. */
  missing: readonly Range[];
  /** The epoch, which each replay increases. Only confirmations of facts that were sent since the last replay count. */
  epoch: number;
}

/** The current round, in which unconfirmed facts are sent again. */
export interface Round {
  /** The position up to which facts were sent in this round; 0 between two rounds. */
  resent: number;
  /** Number of rounds since the last confirmation. */
  rounds: number;
  /** The time when the last round began, in milliseconds; 0 before the first round. */
  beganAt: number;
  /** 1 if all unconfirmed facts must be sent, even recent facts and facts that may still be in the queue. */
  everything: 0 | 1;
}

/** The table of the feeds' state, with one row for each feed. The table is part of the ledger's tables. */
export const CURSORS = `
  CREATE TABLE IF NOT EXISTS feeds (
    feed TEXT PRIMARY KEY, mark INTEGER NOT NULL DEFAULT 0, missing TEXT NOT NULL DEFAULT '[]', epoch INTEGER NOT NULL DEFAULT 0,
    resent INTEGER NOT NULL DEFAULT 0, rounds INTEGER NOT NULL DEFAULT 0, began_at INTEGER NOT NULL DEFAULT 0,
    everything INTEGER NOT NULL DEFAULT 0
  ) STRICT, WITHOUT ROWID;
  INSERT OR IGNORE INTO feeds (feed) VALUES ${FEEDS.map((feed) => `('${feed}')`).join(", ")};`;

/**
 * Maximum number of ranges in one row. A range has about 20 bytes. Above the maximum, the nearest ranges are joined, and the confirmed
 * facts between joined ranges are sent once more.
 */
const MAX_RANGES = 1000;
/** A position greater than that of every fact. */
const END = Number.MAX_SAFE_INTEGER;

/**
 * The outbox of one feed, which records which facts of the ledger are unconfirmed. The outbox has one row for each feed instead of one row
 * for each message, because a confirmation contains a hundred facts. The row stores ranges instead of positions, because a replay makes all
 * facts of a ledger unconfirmed at once, and a value is limited to 2 MB.
 */
export class Outbox {
  readonly #sql: SqlStorage;
  readonly #feed: Feed;

  /** Requires the ledger's table `facts`, and this class's own. */
  constructor(sql: SqlStorage, feed: Feed) {
    this.#sql = sql;
    this.#feed = feed;
  }

  /**
   * Records that the consumer has received these facts, which were sent in this epoch. Confirmations of another epoch are ignored, because
   * the consumer's rows may have been deleted since. Positions at which the ledger has no fact are ignored.
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

  /** Unconfirmed positions after `after` whose facts were recorded by `recordedBy`, oldest first. */
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

  /** Number of unconfirmed facts in a ledger up to `last`. */
  count(last: number): number {
    const open = this.#open(last);
    if (BELONGS[this.#feed] === "true") return size(open);
    const within = `
      SELECT count(*) AS count FROM (SELECT value FROM json_each(?)) open
      CROSS JOIN facts ON sequence BETWEEN open.value->>0 AND open.value->>1 WHERE ${BELONGS[this.#feed]}`;
    return this.#sql.exec<{ count: number }>(within, JSON.stringify(open)).one().count;
  }

  /** Marks all facts of a feed up to a position as confirmed, so that these facts are not scanned again. */
  settle(last: number): void {
    if (this.#cursor().mark < last) this.#move(last, []);
  }

  /** Deletes all confirmations after a position, and starts a new epoch, so that confirmations of earlier sends are ignored. */
  restart(after: number): void {
    this.#move(after, []);
    this.#sql.exec("UPDATE feeds SET epoch = epoch + 1 WHERE feed = ?", this.#feed);
    this.noteRound({ resent: 0, rounds: 0, beganAt: 0, everything: 1 });
  }

  /** The epoch that a confirmation must have. */
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

  /** All unconfirmed positions, including those after `mark`. */
  #open(last = END): Range[] {
    const { mark, missing } = this.#cursor();
    return mark < last ? [...missing, [mark + 1, last]] : [...missing];
  }

  /** Shortens ranges to the facts of this feed, and removes ranges without such facts. */
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

  /** Writes the confirmed positions. A confirmation shows that the consumer works, so the next pause is the shortest pause again. */
  #move(mark: number, missing: readonly Range[]): void {
    this.#sql.exec("UPDATE feeds SET mark = ?, missing = ?, rounds = 0 WHERE feed = ?", mark, JSON.stringify(missing), this.#feed);
  }
}
