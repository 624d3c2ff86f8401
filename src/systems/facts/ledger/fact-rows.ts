import { byteLength } from "millrace";

/** Facts of a ledger, from one place on. */
export interface LedgerPage {
  /** As they are kept: JSON, oldest first, none left out. */
  facts: string[];
  /** The place of the newest fact that the ledger ever took. */
  last: number;
  /** True when there are more behind these that were asked for. */
  more: boolean;
}

/** Which facts are asked for, and how many at once. */
export interface PageBounds {
  rows: number;
  /** One fact at least, however large, and those that begin before so many bytes are full. */
  bytes: number;
  /** Only facts recorded by this moment, in milliseconds. */
  recordedBy?: number;
}

/** What a ledger's tables say of its facts. Nothing is written here. */
export class FactRows {
  readonly #sql: SqlStorage;

  /** The storage holds the ledger's tables `facts` and `pruned`. */
  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** One behind the last when none is kept. */
  first(): number {
    const { first } = this.#sql.exec<{ first: number | null }>("SELECT min(sequence) AS first FROM facts").one();
    return first ?? this.last() + 1;
  }

  /** Pruned facts stand before those that are kept. */
  last(): number {
    const newest = "SELECT coalesce((SELECT max(sequence) FROM facts), (SELECT max(sequence) FROM pruned), 0) AS last";
    return this.#sql.exec<{ last: number }>(newest).one().last;
  }

  /** When the newest fact was recorded; 0 when none is kept. */
  newestRecordedAt(): number {
    const query = "SELECT recorded_at AS at FROM facts ORDER BY sequence DESC LIMIT 1";
    return this.#sql.exec<{ at: number }>(query).toArray()[0]?.at ?? 0;
  }

  /** Facts behind a place that were recorded by a moment. */
  page(after: number, { rows, bytes, recordedBy = Number.MAX_SAFE_INTEGER }: PageBounds): LedgerPage {
    const facts: string[] = [];
    let more = false;
    let size = 0;
    const query = "SELECT body FROM facts WHERE sequence > ? AND recorded_at <= ? ORDER BY sequence LIMIT ?";
    for (const { body } of this.#sql.exec<{ body: string }>(query, after, recordedBy, rows + 1)) {
      more = facts.length === rows || (size >= bytes && facts.length > 0);
      if (more) break;
      facts.push(body);
      size += byteLength(body);
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
