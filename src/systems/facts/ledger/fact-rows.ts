import { texts } from "millrace";

/** A page of a ledger's facts after a position. */
export interface LedgerPage {
  /** The facts as JSON, oldest first, without gaps between their positions. */
  facts: string[];
  /** The position of the newest fact of the ledger, even if that fact was pruned. */
  last: number;
  /** True if the ledger has further requested facts after this page. */
  more: boolean;
}

/** The requested range, and the size of a page. */
export interface PageBounds {
  rows: number;
  /** A page has at least one fact of any size, and further facts that begin within this many bytes. */
  bytes: number;
  /** If set, only facts that were recorded until this time, in milliseconds, are read. */
  recordedBy?: number;
}

/** Reads a ledger's tables of facts. */
export class FactRows {
  readonly #sql: SqlStorage;

  /** Requires the ledger's tables `facts` and `pruned`. */
  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** The position of the oldest kept fact, or the last position plus one if no fact is kept. */
  first(): number {
    const { first } = this.#sql.exec<{ first: number | null }>("SELECT min(sequence) AS first FROM facts").one();
    return first ?? this.last() + 1;
  }

  /** The position of the newest fact. All pruned facts have lower positions than the kept facts. */
  last(): number {
    const newest = "SELECT coalesce((SELECT max(sequence) FROM facts), (SELECT max(sequence) FROM pruned), 0) AS last";
    return this.#sql.exec<{ last: number }>(newest).one().last;
  }

  /** The time at which the newest kept fact was recorded; 0 if no fact is kept. */
  newestRecordedAt(): number {
    const query = "SELECT recorded_at AS at FROM facts ORDER BY sequence DESC LIMIT 1";
    return this.#sql.exec<{ at: number }>(query).toArray()[0]?.at ?? 0;
  }

  /** Returns a page of facts after a position. With `recordedBy`, the page contains only facts recorded until that time. */
  page(after: number, { rows, bytes, recordedBy = Number.MAX_SAFE_INTEGER }: PageBounds): LedgerPage {
    const facts: string[] = [];
    let more = false;
    let size = 0;
    const query = "SELECT body FROM facts WHERE sequence > ? AND recorded_at <= ? ORDER BY sequence LIMIT ?";
    for (const { body } of this.#sql.exec<{ body: string }>(query, after, recordedBy, rows + 1)) {
      more = facts.length === rows || (size >= bytes && facts.length > 0);
      if (more) break;
      facts.push(body);
      size += texts.byteLength(body);
    }
    return { facts, last: this.last(), more };
  }

  behind(after: number, limit: number): string[] {
    return this.#bodies("SELECT body FROM facts WHERE sequence > ? ORDER BY sequence LIMIT ?", after, limit);
  }

  before(sequence: number, limit: number): { sequence: number; body: string }[] {
    const query = "SELECT sequence, body FROM facts WHERE sequence < ? ORDER BY sequence LIMIT ?";
    return this.#sql.exec<{ sequence: number; body: string }>(query, sequence, limit).toArray();
  }

  at(places: readonly number[]): string[] {
    const query = "SELECT body FROM facts WHERE sequence IN (SELECT value FROM json_each(?)) ORDER BY sequence";
    return this.#bodies(query, JSON.stringify(places));
  }

  named(factIds: readonly string[]): string[] {
    const query = "SELECT body FROM facts WHERE fact_id IN (SELECT value FROM json_each(?)) ORDER BY sequence";
    return this.#bodies(query, JSON.stringify(factIds));
  }

  namesAt(places: readonly number[]): { sequence: number; fact_id: string }[] {
    const query = "SELECT sequence, fact_id FROM facts WHERE sequence IN (SELECT value FROM json_each(?))";
    return this.#sql.exec<{ sequence: number; fact_id: string }>(query, JSON.stringify(places)).toArray();
  }

  #bodies(query: string, ...bindings: SqlStorageValue[]): string[] {
    return [...this.#sql.exec<{ body: string }>(query, ...bindings)].map(({ body }) => body);
  }
}
