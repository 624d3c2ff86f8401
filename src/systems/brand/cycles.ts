import type { Priority } from "../../messages/brand.ts";
import type { Verdict } from "./decide.ts";
import { keywordKey } from "./keyword.ts";
import type { Cycle } from "./requests.ts";
import { KEEP_MS } from "./schema.ts";

/** The possible outcomes of a keyword in its cycle. The end of a cycle counts the keywords with each outcome. */
const OUTCOMES = ["published", "rejected", "failed", "skipped"] as const;
/** The possible states of a keyword that has no outcome yet. */
const RUNNING = ["held", "researching", "writing", "draft"] as const;
export const CYCLE_KEYWORD_STATES = [...RUNNING, ...OUTCOMES] as const;
export type CycleKeywordState = (typeof CYCLE_KEYWORD_STATES)[number];

export type CycleOutcomes = Record<(typeof OUTCOMES)[number], number>;

/** A keyword of a cycle with its present state. */
export interface CycleKeyword {
  keyword: string;
  state: CycleKeywordState;
  verdict: Verdict;
  /** The id of the instance that researches the keyword; null if no instance researches the keyword. */
  research_instance_id: string | null;
  /** The id of the keyword's article; null before the article is written. */
  content_id: string | null;
}

/** A cycle without its keywords. All times of a cycle are in milliseconds. */
export interface CycleRow {
  place: number;
  cycle: string;
  /** The number of the cycle's round, which increases by one each time that new keywords are added to an ended cycle. */
  round: number;
  priority: Priority;
  correlation_id: string;
  started_at: number;
  /** Time of the cycle's end in milliseconds; null while the cycle is running. */
  ended_at: number | null;
}

/** The end of a cycle's round, with the data of the event about this end. */
export interface CycleEnd extends CycleOutcomes {
  cycle: string;
  round: number;
  correlation_id: string;
  causation_id: string;
  traceparent: string;
  tracestate: string | null;
}

/**
 * A keyword in the plan of a cycle, with the decision about the keyword. If the decision starts work, the entry also contains the id of the
 * request.
 */
export interface CycleEntry {
  keyword: string;
  verdict: Verdict;
  request: string | null;
}

/**
 * The SQL expression of the state of a keyword `k`, derived from the rows of the keyword's request and articles at each read. Therefore the
 * order and the number of events do not matter. A restarted instance may have led to several articles, of which the article with the best
 * state counts.
 */
const STATE = `CASE
  WHEN k.verdict = 'skipped' THEN 'skipped'
  WHEN k.verdict = 'refused' THEN 'failed'
  ELSE coalesce(
    (SELECT CASE WHEN a.state IN ('live', 'unpublished') THEN 'published' WHEN a.state = 'draft' AND k.is_stuck = 1 THEN 'failed'
       ELSE coalesce(a.state, 'failed') END
     FROM begun b LEFT JOIN articles a ON a.content_id = b.content_id WHERE b.request = k.request
     ORDER BY CASE a.state WHEN 'live' THEN 0 WHEN 'unpublished' THEN 0 WHEN 'draft' THEN 1 WHEN 'writing' THEN 2 WHEN 'rejected' THEN 3
       WHEN 'failed' THEN 4 ELSE 5 END LIMIT 1),
    (SELECT CASE q.state WHEN 'held' THEN 'held' WHEN 'failed' THEN 'failed' WHEN 'dropped' THEN 'failed' ELSE 'researching' END
     FROM requests q WHERE q.instance_id = k.request),
    'failed')
  END`;
const IS_RUNNING = `${STATE} IN (${RUNNING.map((state) => `'${state}'`).join(", ")})`;
const COLUMNS = "place, cycle, round, priority, correlation_id, started_at, ended_at";

/** An agent's cycles. The class stores the keywords of each cycle, and finds the cycles in which all keywords have an outcome. */
export class CycleBook {
  readonly #sql: SqlStorage;

  /** The object's storage must have the tables of `BRAND_SCHEMA`. */
  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /**
   * Adds the keywords of a plan to the plan's cycle. If the cycle has ended and at least one of the keywords is new, the cycle continues
   * with the next round.
   */
  plan(asked: Cycle, entries: readonly CycleEntry[], now: number): void {
    const { cycle, priority, correlation_id, instance_id, traceparent, tracestate = null } = asked;
    this.#sql.exec(
      `INSERT INTO cycle_runs (cycle, round, priority, correlation_id, causation_id, traceparent, tracestate, started_at)
       VALUES (?, 1, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      cycle,
      priority,
      correlation_id,
      `${instance_id}/decide`,
      traceparent,
      tracestate,
      now,
    );
    let added = 0;
    for (const { keyword, verdict, request } of entries) {
      const insert = `INSERT INTO cycle_keywords (cycle, keyword, spelled, verdict, request) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (cycle, keyword) DO UPDATE SET verdict = excluded.verdict, request = excluded.request
        WHERE excluded.request IS NOT NULL AND cycle_keywords.request IS NULL`;
      added += this.#sql.exec(insert, cycle, keywordKey(keyword), keyword, verdict, request).rowsWritten;
    }
    if (added === 0) return;
    this.#sql.exec("UPDATE cycle_runs SET round = round + 1, ended_at = NULL WHERE cycle = ? AND ended_at IS NOT NULL", cycle);
  }

  /**
   * Records that a keyword's request started no work, because the agent skipped the request after all or the engine refused the request.
   */
  decided(request: string, verdict: "skipped" | "refused"): void {
    this.#sql.exec("UPDATE cycle_keywords SET verdict = ? WHERE request = ?", verdict, request);
  }

  /** Records whether the publication of a draft has stopped. */
  stuck(contentId: string, isStuck: boolean): void {
    const update = `UPDATE cycle_keywords SET is_stuck = ?1 WHERE is_stuck <> ?1
      AND request IN (SELECT request FROM begun WHERE content_id = ?2)`;
    this.#sql.exec(update, isStuck ? 1 : 0, contentId);
  }

  /** True while a cycle of this brand is running. */
  isOpen(): boolean {
    return this.#rows("SELECT 1 FROM cycle_runs WHERE ended_at IS NULL LIMIT 1").length > 0;
  }

  /** True if a cycle must be ended, or if the event about an end has not been sent yet. */
  isDue(): boolean {
    return this.#complete().length > 0 || this.untold().length > 0;
  }

  /** Selects the drafts of running cycles, each with the time of its last change in milliseconds. */
  drafts(): { content_id: string; at: number }[] {
    return this.#rows(
      `SELECT a.content_id, a.at FROM cycle_runs r JOIN cycle_keywords k USING (cycle) JOIN begun b USING (request)
         JOIN articles a USING (content_id)
       WHERE r.ended_at IS NULL AND a.state = 'draft'`,
    );
  }

  /** Selects the failed work of running cycles: the instances of research and of articles, each with its start time in milliseconds. */
  failed(): { instance_id: string; at: number }[] {
    return this.#rows(
      `SELECT q.instance_id, q.at FROM cycle_runs r JOIN cycle_keywords k USING (cycle) JOIN requests q ON q.instance_id = k.request
       WHERE r.ended_at IS NULL AND q.state = 'failed'
       UNION SELECT a.content_id, a.at FROM cycle_runs r JOIN cycle_keywords k USING (cycle) JOIN begun b USING (request)
         JOIN articles a USING (content_id)
       WHERE r.ended_at IS NULL AND a.state = 'failed'`,
    );
  }

  /** Ends each cycle in which all keywords have an outcome. Each round of a cycle ends once. */
  end(now: number): void {
    for (const { cycle, round } of this.#complete()) {
      const { running: _, ...outcomes } = this.counts(cycle);
      const insert = "INSERT INTO cycle_ends (cycle, round, outcomes) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
      this.#sql.exec(insert, cycle, round, JSON.stringify(outcomes));
      this.#sql.exec("UPDATE cycle_runs SET ended_at = ? WHERE cycle = ?", now, cycle);
    }
  }

  /** Selects the ends of cycles for which no event has been sent yet. */
  untold(): CycleEnd[] {
    const rows = this.#rows<Omit<CycleEnd, keyof CycleOutcomes> & { outcomes: string }>(
      `SELECT e.cycle, e.round, e.outcomes, r.correlation_id, r.causation_id, r.traceparent, r.tracestate
       FROM cycle_ends e JOIN cycle_runs r USING (cycle) WHERE e.is_told = 0 ORDER BY e.place LIMIT 100`,
    );
    return rows.map(({ outcomes, ...end }) => ({ ...end, ...(JSON.parse(outcomes) as CycleOutcomes) }));
  }

  told({ cycle, round }: Pick<CycleEnd, "cycle" | "round">): void {
    this.#sql.exec("UPDATE cycle_ends SET is_told = 1 WHERE cycle = ? AND round = ?", cycle, round);
  }

  /** Counts the keywords of a cycle in each present state. */
  counts(cycle: string): CycleOutcomes & { running: number } {
    const counts = { published: 0, rejected: 0, failed: 0, skipped: 0, running: 0 };
    for (const { state, count } of this.#rows<{ state: CycleKeywordState; count: number }>(
      `SELECT ${STATE} AS state, count(*) AS count FROM cycle_keywords k WHERE k.cycle = ? GROUP BY 1`,
      cycle,
    )) {
      counts[isOutcome(state) ? state : "running"] += count;
    }
    return counts;
  }

  /** Returns the outcomes that the event about a cycle's last end contains; null before the first end. */
  lastEnd(cycle: string): CycleOutcomes | null {
    const select = "SELECT outcomes FROM cycle_ends WHERE cycle = ? ORDER BY round DESC LIMIT 1";
    const [row] = this.#rows<{ outcomes: string }>(select, cycle);
    return row ? JSON.parse(row.outcomes) : null;
  }

  find(cycle: string): CycleRow | undefined {
    return this.#rows<CycleRow>(`SELECT ${COLUMNS} FROM cycle_runs WHERE cycle = ?`, cycle)[0];
  }

  /** Lists the cycles that are older than a position, newest first. */
  list(before: number, limit: number): CycleRow[] {
    return this.#rows(`SELECT ${COLUMNS} FROM cycle_runs WHERE place < ? ORDER BY place DESC LIMIT ?`, before, limit);
  }

  /** Lists a cycle's keywords, in the order in which the plan added them. */
  keywords(cycle: string): CycleKeyword[] {
    return this.#rows(
      `SELECT k.spelled AS keyword, ${STATE} AS state, k.verdict, k.request AS research_instance_id,
         (SELECT b.content_id FROM begun b JOIN articles a USING (content_id) WHERE b.request = k.request AND a.revision > 0
          ORDER BY a.state IN ('live', 'unpublished') DESC LIMIT 1) AS content_id
       FROM cycle_keywords k WHERE k.cycle = ? ORDER BY k.place`,
      cycle,
    );
  }

  /** Deletes cycles that ended before the retention period. */
  prune(now: number): void {
    this.#sql.exec(
      "DELETE FROM cycle_runs WHERE ended_at < ? AND cycle NOT IN (SELECT cycle FROM cycle_ends WHERE is_told = 0)",
      now - KEEP_MS,
    );
    for (const table of ["cycle_keywords", "cycle_ends"]) {
      this.#sql.exec(`DELETE FROM ${table} WHERE cycle NOT IN (SELECT cycle FROM cycle_runs)`);
    }
    this.#sql.exec("DELETE FROM begun WHERE request NOT IN (SELECT request FROM cycle_keywords WHERE request IS NOT NULL)");
  }

  /** Selects running cycles without a keyword in progress. */
  #complete(): { cycle: string; round: number }[] {
    return this.#rows(
      `SELECT r.cycle, r.round FROM cycle_runs r
       WHERE r.ended_at IS NULL AND NOT EXISTS (SELECT 1 FROM cycle_keywords k WHERE k.cycle = r.cycle AND ${IS_RUNNING})`,
    );
  }

  #rows<Row extends object>(select: string, ...bindings: SqlStorageValue[]): Row[] {
    return this.#sql.exec(select, ...bindings).toArray() as unknown as Row[];
  }
}

function isOutcome(state: CycleKeywordState): state is keyof CycleOutcomes {
  return (OUTCOMES as readonly string[]).includes(state);
}
