import type { Decided, Grounds, Verdict } from "./decide.ts";
import { keywordKey } from "./keyword.ts";
import { KEEP_MS } from "./schema.ts";

/** A decision of a brand's agent, in the form in which lists contain decisions. */
export interface Decision {
  /** The number of the decision among all decisions about its brand. */
  place: number;
  /** The time of the decision in milliseconds. */
  at: number;
  cycle: string;
  keyword: string;
  verdict: Verdict;
  reason: string;
  grounds: Grounds;
}

/** The filter of a list of decisions. */
export interface DecisionFilter {
  keyword?: string | undefined;
  cycle?: string | undefined;
  before: number;
  limit: number;
}

/** Maximum number of decisions that are kept. Decisions that are older than `KEEP_MS` are deleted in any case. */
const KEEP_DECISIONS = 5000;

/** An agent's decisions, each with its reason. */
export class DecisionLog {
  readonly #sql: SqlStorage;

  /** The object's storage must have the tables of `BRAND_SCHEMA`. */
  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  add(cycle: string, keyword: string, { verdict, reason, grounds }: Decided, at: number): void {
    this.#sql.exec(
      "INSERT INTO decisions (at, cycle, keyword, spelled, verdict, reason, grounds) VALUES (?, ?, ?, ?, ?, ?, ?)",
      at,
      cycle,
      keywordKey(keyword),
      keyword,
      verdict,
      reason,
      JSON.stringify(grounds),
    );
  }

  /** Lists the decisions that match the filter, newest first. */
  list({ keyword, cycle, before, limit }: DecisionFilter): Decision[] {
    const rows = this.#sql.exec<{ [Name in keyof Decision]: SqlStorageValue }>(
      `SELECT place, at, cycle, spelled AS keyword, verdict, reason, grounds FROM decisions
       WHERE place < ?1 ${keyword === undefined ? "" : "AND keyword = ?2"} ${cycle === undefined ? "" : "AND cycle = ?3"}
       ORDER BY place DESC LIMIT ?4`,
      before,
      keyword === undefined ? null : keywordKey(keyword),
      cycle ?? null,
      limit,
    );
    return [...rows].map((row) => ({ ...row, grounds: JSON.parse(String(row.grounds)) }) as unknown as Decision);
  }

  prune(now: number): void {
    this.#sql.exec("DELETE FROM decisions WHERE at < ? OR place <= (SELECT max(place) FROM decisions) - ?", now - KEEP_MS, KEEP_DECISIONS);
  }
}
