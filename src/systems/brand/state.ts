import type { Priority } from "../../messages/brand.ts";
import type { KnownKeyword, Room } from "./decide.ts";
import { keywordKey, spelled } from "./keyword.ts";
import { KEEP_MS } from "./schema.ts";

/**
 * The state of an article in the records of a brand's agent: `writing` and `failed` before its first draft, then the state of its newest
 * revision.
 */
export type ArticleState = "writing" | "failed" | "draft" | "live" | "unpublished" | "rejected";

export interface KnownArticle {
  content_id: string;
  keyword: string;
  /** The revision in the article's messages; 0 while the article is being written. */
  revision: number;
  state: ArticleState;
}

/** The page of an article on one site. `revision` is the article's revision at the last change of the page. */
export interface KnownPage extends Omit<KnownArticle, "state"> {
  site: string;
  live: boolean;
}

export interface Counts {
  live: number;
  drafts: number;
  /** The number of requested articles without a draft. */
  on_their_way: number;
  held: number;
}

/** Counts of the brand's research in progress, and of all articles that the brand ever had. */
export interface Totals {
  pending_research: number;
  generated: number;
  published: number;
}

/** A requested keyword, from the decision to the article. */
export interface KeywordRequest {
  /** The instance that researches the keyword, or will research it. */
  instance_id: string;
  spelled: string;
  cycle: string;
  /** The id of the existing research that the request reuses; null if the request needs new research. */
  reuse: string | null;
  priority: Priority;
  /** The job and the trace of the cycle. */
  correlation_id: string;
  causation_id: string;
  traceparent: string;
  tracestate: string | null;
}

/** The priorities in the order of `rank`. */
const PRIORITIES: readonly Priority[] = ["high", "normal", "low"];

/**
 * A request's state changes from `held` to `to_send`, then to `sent`, then to `done`, and never back. Requests in the states `failed` and
 * `dropped` do not count against the brand's limit.
 */
type RequestState = "held" | "to_send" | "sent" | "failed" | "dropped" | "done";

/**
 * The state of a brand in its agent's tables, derived from events. Events in another order, and repeated events, give the same rows. The
 * counts of a brand are computed from the rows at each read.
 */
export class BrandState {
  readonly #sql: SqlStorage;

  /** The object's storage must have the tables of `BRAND_SCHEMA`. */
  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Records a keyword's first spelling. The method returns the key of the keyword. */
  name(keyword: string): string {
    const key = keywordKey(keyword);
    this.#sql.exec("INSERT INTO keywords (keyword, spelled) VALUES (?, ?) ON CONFLICT DO NOTHING", key, spelled(keyword));
    return key;
  }

  /** Records research of a keyword. The method returns false if this research was recorded before. */
  researched(researchId: string, keyword: string, at: number): boolean {
    const insert = "INSERT INTO research (research_id, keyword, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
    return this.#sql.exec(insert, researchId, this.name(keyword), at).rowsWritten > 0;
  }

  /**
   * Records that research has led to an article in progress, and ends the request for this research. The method returns false if the
   * article was recorded before.
   */
  begun(request: string, contentId: string, keyword: string, at: number): boolean {
    this.#sql.exec("UPDATE requests SET state = 'done' WHERE instance_id = ? AND state IN ('to_send', 'sent', 'failed')", request);
    this.#sql.exec("INSERT INTO begun (content_id, request) VALUES (?, ?) ON CONFLICT DO NOTHING", contentId, request);
    const insert = "INSERT INTO articles (content_id, keyword, revision, state, at) VALUES (?, ?, 0, 'writing', ?) ON CONFLICT DO NOTHING";
    return this.#sql.exec(insert, contentId, this.name(keyword), at).rowsWritten > 0;
  }

  /** Records an article's revision; older revisions are ignored. The method returns false if it changed no record. */
  became({ content_id, keyword, revision, state }: KnownArticle, at: number): boolean {
    const upsert = `INSERT INTO articles (content_id, keyword, revision, state, at) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET revision = excluded.revision, state = excluded.state, at = excluded.at WHERE excluded.revision > revision`;
    if (state !== "writing" && state !== "failed") this.#reached(content_id, "generated");
    if (state === "live" || state === "unpublished") this.#reached(content_id, "published");
    return this.#sql.exec(upsert, content_id, this.name(keyword), revision, state, at).rowsWritten > 0;
  }

  /**
   * Records the page of an article on one site; older revisions of the page are ignored. The article is live while one of its pages is
   * published. A draft or a rejection of a later revision remains recorded.
   */
  paged({ content_id, keyword, site, revision, live }: KnownPage, at: number): void {
    this.#reached(content_id, "generated");
    this.#reached(content_id, "published");
    const page = `INSERT INTO pages (content_id, site, revision, live, at) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET revision = excluded.revision, live = excluded.live, at = excluded.at WHERE excluded.revision > revision`;
    if (this.#sql.exec(page, content_id, site, revision, live ? 1 : 0, at).rowsWritten === 0) return;
    const upsert = `INSERT INTO articles (content_id, keyword, revision, state, at)
      SELECT ?1, ?2, max(revision), iif(max(live) = 1, 'live', 'unpublished'), max(at) FROM pages WHERE content_id = ?1
      ON CONFLICT DO UPDATE SET revision = max(revision, excluded.revision), state = excluded.state, at = excluded.at
        WHERE excluded.revision >= revision OR state IN ('live', 'unpublished')`;
    this.#sql.exec(upsert, content_id, this.name(keyword));
  }

  /** Counts an article's first draft or first publication, and ignores repeated calls. */
  #reached(contentId: string, what: "generated" | "published"): void {
    const insert = "INSERT INTO milestones (content_id, what) VALUES (?, ?) ON CONFLICT DO NOTHING";
    if (this.#sql.exec(insert, contentId, what).rowsWritten === 0) return;
    this.#sql.exec("INSERT INTO totals (what, count) VALUES (?, 1) ON CONFLICT DO UPDATE SET count = count + 1", what);
  }

  totals(): Totals {
    const totals = { generated: 0, published: 0 };
    for (const { what, count } of this.#rows<{ what: keyof typeof totals; count: number }>("SELECT what, count FROM totals")) {
      totals[what] = count;
    }
    const pending = "SELECT count(*) AS count FROM requests WHERE state IN ('to_send', 'sent')";
    return { pending_research: this.#rows<{ count: number }>(pending)[0]?.count ?? 0, ...totals };
  }

  /** Sets an article's state to the state that D1 has for this revision. */
  correct(contentId: string, revision: number, state: ArticleState): boolean {
    const update = "UPDATE articles SET state = ?1 WHERE content_id = ?2 AND revision = ?3 AND state <> ?1";
    return this.#sql.exec(update, state, contentId, revision).rowsWritten > 0;
  }

  /**
   * Records that work has failed. Failed work does not count against the brand's limit, unless a later event reports success. The method
   * returns the keyword of the work, or undefined if the work did not count before.
   */
  failed(instanceId: string): string | undefined {
    const [row] = [
      ...this.#rows<{ keyword: string }>(
        "UPDATE requests SET state = 'failed' WHERE instance_id = ? AND state IN ('to_send', 'sent') RETURNING spelled AS keyword",
        instanceId,
      ),
      ...this.#rows<{ keyword: string }>(
        "UPDATE articles SET state = 'failed' WHERE content_id = ? AND state = 'writing' RETURNING keyword",
        instanceId,
      ),
    ];
    return row?.keyword;
  }

  /** Records that failed work is in progress again. */
  revived(instanceId: string, at: number): void {
    this.#sql.exec("UPDATE requests SET state = 'sent', at = ? WHERE instance_id = ? AND state = 'failed'", at, instanceId);
    this.#sql.exec("UPDATE articles SET state = 'writing', at = ? WHERE content_id = ? AND state = 'failed'", at, instanceId);
  }

  forgetArticle(contentId: string): boolean {
    this.#sql.exec("DELETE FROM pages WHERE content_id = ?", contentId);
    return this.#sql.exec("DELETE FROM articles WHERE content_id = ? AND revision > 0", contentId).rowsWritten > 0;
  }

  forgetResearch(researchId: string): boolean {
    return this.#sql.exec("DELETE FROM research WHERE research_id = ?", researchId).rowsWritten > 0;
  }

  article(contentId: string): KnownArticle | undefined {
    const select = "SELECT content_id, keyword, revision, state FROM articles WHERE content_id = ?";
    return this.#rows<KnownArticle>(select, contentId)[0];
  }

  known(key: string): KnownKeyword {
    const known: KnownKeyword = {};
    const articles = "SELECT state, content_id FROM articles WHERE keyword = ? AND state IN ('live', 'draft', 'writing')";
    for (const { state, content_id } of this.#rows<{ state: "live" | "draft" | "writing"; content_id: string }>(articles, key)) {
      known[state] ??= content_id;
    }
    const requests = "SELECT state, instance_id, cycle FROM requests WHERE keyword = ? AND state IN ('held', 'to_send', 'sent')";
    for (const { state, instance_id, cycle } of this.#rows<{ state: string; instance_id: string; cycle: string }>(requests, key)) {
      if (state === "held") known.heldBy ??= cycle;
      else known.researching ??= instance_id;
    }
    const research = "SELECT research_id AS id, at FROM research WHERE keyword = ? ORDER BY at DESC LIMIT 1";
    const [newest] = this.#rows<{ id: string; at: number }>(research, key);
    if (newest) known.research = newest;
    return known;
  }

  counts(): Counts {
    const { drafts, on_their_way } = this.room(0);
    const [row] = this.#rows<{ live: number }>("SELECT count(*) AS live FROM articles WHERE state = 'live'");
    return { live: row?.live ?? 0, drafts, on_their_way, held: this.held() };
  }

  /**
   * Returns the brand's limit, and the work that counts against this limit. Published articles are not read, because a brand can have many.
   */
  room(max_drafts: number): Room {
    const [row] = this.#rows<Omit<Room, "max_drafts">>(
      `SELECT (SELECT count(*) FROM articles WHERE state = 'draft') AS drafts,
         (SELECT count(*) FROM articles WHERE state = 'writing') + (SELECT count(*) FROM requests WHERE state IN ('to_send', 'sent')) AS on_their_way`,
    );
    return { drafts: 0, on_their_way: 0, ...row, max_drafts };
  }

  /** Returns the number of requests that wait until the brand has fewer drafts. */
  held(): number {
    return this.#rows<{ count: number }>("SELECT count(*) AS count FROM requests WHERE state = 'held'")[0]?.count ?? 0;
  }

  /** Returns the number of keywords that are held back or still to be sent. */
  waiting(): number {
    return this.#rows<{ count: number }>("SELECT count(*) AS count FROM requests WHERE state IN ('held', 'to_send')")[0]?.count ?? 0;
  }

  /** Adds a request for a keyword. The method returns false if the request's instance was requested before. */
  ask(request: KeywordRequest, state: "held" | "to_send" | "sent", at: number): boolean {
    const { instance_id, spelled, cycle, reuse, correlation_id, causation_id, traceparent, tracestate } = request;
    const insert = `INSERT INTO requests
        (instance_id, keyword, spelled, cycle, reuse, correlation_id, causation_id, traceparent, state, at, rank)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (instance_id) DO NOTHING`;
    const key = this.name(spelled);
    const written = this.#sql.exec(
      insert,
      instance_id,
      key,
      spelled,
      cycle,
      reuse,
      correlation_id,
      causation_id,
      traceparent,
      state,
      at,
      PRIORITIES.indexOf(request.priority),
    ).rowsWritten;
    if (written > 0 && tracestate !== null) {
      this.#sql.exec("INSERT INTO trace_states (instance_id, tracestate) VALUES (?, ?) ON CONFLICT DO NOTHING", instance_id, tracestate);
    }
    return written > 0;
  }

  /** True if the instance was requested by a decision of the agent. */
  asked(instanceId: string): boolean {
    return this.#rows("SELECT 1 FROM requests WHERE instance_id = ? AND state NOT IN ('held', 'dropped')", instanceId).length > 0;
  }

  /** Lists the requests in a state: the highest priority first, then the oldest. */
  requests(state: "held" | "to_send" | "sent", limit = -1): KeywordRequest[] {
    const columns = "instance_id, spelled, cycle, reuse, rank, correlation_id, causation_id, traceparent, tracestate";
    const all = "requests LEFT JOIN trace_states USING (instance_id)";
    const select = `SELECT ${columns} FROM ${all} WHERE state = ? ORDER BY rank, place LIMIT ?`;
    return this.#rows<Omit<KeywordRequest, "priority"> & { rank: number }>(select, state, limit).map(({ rank, ...request }) => ({
      ...request,
      priority: PRIORITIES[rank] ?? "normal",
    }));
  }

  /** Changes the state of a keyword's request. The method returns false if the state had changed already. */
  move(instanceId: string, from: RequestState, to: RequestState, at: number, reuse: string | null = null): boolean {
    const update = "UPDATE requests SET state = ?1, at = ?2, reuse = coalesce(?3, reuse) WHERE instance_id = ?4 AND state = ?5";
    return this.#sql.exec(update, to, at, reuse, instanceId, from).rowsWritten > 0;
  }

  /** Lists the instances that research a keyword or write an article now. */
  open(): { instance_id: string; correlation_id: string | null; at: number }[] {
    return this.#rows(
      `SELECT instance_id, correlation_id, at FROM requests WHERE state = 'sent'
       UNION ALL SELECT content_id, NULL, at FROM articles WHERE state = 'writing'`,
    );
  }

  /** Lists all recorded articles and research. D1 should have each of them too. */
  believed(): { articles: string[]; research: string[] } {
    const articles = this.#rows<{ content_id: string }>("SELECT content_id FROM articles WHERE revision > 0");
    const research = this.#rows<{ research_id: string }>("SELECT research_id FROM research");
    return { articles: articles.map(({ content_id }) => content_id), research: research.map(({ research_id }) => research_id) };
  }

  /** Lists keywords with a position below `before`, newest first. */
  keywords(before: number, limit: number): { place: number; spelled: string; known: KnownKeyword }[] {
    const rows = this.#rows<{ place: number; keyword: string; spelled: string }>(
      "SELECT place, keyword, spelled FROM keywords WHERE place < ? ORDER BY place DESC LIMIT ?",
      before,
      limit,
    );
    return rows.map(({ place, keyword, spelled }) => ({ place, spelled, known: this.known(keyword) }));
  }

  /** Deletes old research, and the finished requests and removed articles of ended cycles. */
  prune(now: number, freshMs: number): void {
    const open = "SELECT request FROM cycle_keywords JOIN cycle_runs USING (cycle) WHERE ended_at IS NULL AND request IS NOT NULL";
    this.#sql.exec("DELETE FROM research WHERE at < ?", now - freshMs);
    this.#sql.exec(
      `DELETE FROM requests WHERE state IN ('failed', 'dropped', 'done') AND at < ? AND instance_id NOT IN (${open})`,
      now - KEEP_MS,
    );
    this.#sql.exec("DELETE FROM trace_states WHERE instance_id NOT IN (SELECT instance_id FROM requests)");
    this.#sql.exec(
      `DELETE FROM articles WHERE state IN ('failed', 'unpublished', 'rejected') AND at < ?
         AND content_id NOT IN (SELECT content_id FROM begun WHERE request IN (${open}))`,
      now - KEEP_MS,
    );
    this.#sql.exec("DELETE FROM pages WHERE content_id NOT IN (SELECT content_id FROM articles)");
    this.#sql.exec("DELETE FROM cycles WHERE at < ?", now - KEEP_MS);
    this.#sql.exec("DELETE FROM audits WHERE at < ?", now - KEEP_MS);
  }

  #rows<Row extends object>(select: string, ...bindings: SqlStorageValue[]): Row[] {
    return this.#sql.exec(select, ...bindings).toArray() as unknown as Row[];
  }
}
