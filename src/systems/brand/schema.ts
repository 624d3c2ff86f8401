/** How long an agent keeps decisions and finished requests. */
export const KEEP_MS = 90 * 86_400_000;

/**
 * The tables of a brand's agent. The table `agent` has one row with the tenant and brand of the agent, and the agent's progress. The table
 * `paced` has one row with the rate by which `next_at` was computed. The table `begun` has the articles of requests. The table `milestones`
 * has each article's first draft and first publication, which `totals` counts once.
 */
export const BRAND_SCHEMA = `
  CREATE TABLE IF NOT EXISTS agent (
    id INTEGER PRIMARY KEY CHECK (id = 1), tenant_id TEXT NOT NULL, brand TEXT NOT NULL,
    acquainted INTEGER NOT NULL DEFAULT 0, noted INTEGER NOT NULL DEFAULT 0,
    looked_at INTEGER NOT NULL DEFAULT 0, next_at REAL NOT NULL DEFAULT 0
  ) STRICT;
  CREATE TABLE IF NOT EXISTS paced (id INTEGER PRIMARY KEY CHECK (id = 1), rate_per_second REAL NOT NULL) STRICT;
  CREATE TABLE IF NOT EXISTS keywords (place INTEGER PRIMARY KEY, keyword TEXT NOT NULL UNIQUE, spelled TEXT NOT NULL) STRICT;
  CREATE TABLE IF NOT EXISTS research (research_id TEXT PRIMARY KEY, keyword TEXT NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS research_by_keyword ON research (keyword, at);
  CREATE TABLE IF NOT EXISTS articles (
    content_id TEXT PRIMARY KEY, keyword TEXT NOT NULL, revision INTEGER NOT NULL CHECK (revision >= 0),
    state TEXT NOT NULL CHECK (state IN ('writing', 'failed', 'draft', 'live', 'unpublished', 'rejected')), at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS articles_by_keyword ON articles (keyword, state);
  CREATE INDEX IF NOT EXISTS articles_by_state ON articles (state, at);
  CREATE TABLE IF NOT EXISTS pages (
    content_id TEXT NOT NULL, site TEXT NOT NULL, revision INTEGER NOT NULL, live INTEGER NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (content_id, site)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS requests (
    place INTEGER PRIMARY KEY, instance_id TEXT NOT NULL UNIQUE, keyword TEXT NOT NULL, spelled TEXT NOT NULL, cycle TEXT NOT NULL,
    reuse TEXT, correlation_id TEXT NOT NULL, causation_id TEXT NOT NULL, traceparent TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('held', 'to_send', 'sent', 'failed', 'dropped', 'done')), at INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS trace_states (instance_id TEXT PRIMARY KEY, tracestate TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS requests_by_state ON requests (state, place);
  CREATE INDEX IF NOT EXISTS requests_by_keyword ON requests (keyword, state);
  CREATE TABLE IF NOT EXISTS decisions (
    place INTEGER PRIMARY KEY, at INTEGER NOT NULL, cycle TEXT NOT NULL, keyword TEXT NOT NULL, spelled TEXT NOT NULL,
    verdict TEXT NOT NULL, reason TEXT NOT NULL, grounds TEXT NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS decisions_by_keyword ON decisions (keyword, place);
  CREATE INDEX IF NOT EXISTS decisions_by_cycle ON decisions (cycle, place);
  CREATE TABLE IF NOT EXISTS cycles (instance_id TEXT PRIMARY KEY, at INTEGER NOT NULL, answer TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS begun (content_id TEXT PRIMARY KEY, request TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS begun_by_request ON begun (request);
  CREATE TABLE IF NOT EXISTS cycle_runs (
    place INTEGER PRIMARY KEY, cycle TEXT NOT NULL UNIQUE, round INTEGER NOT NULL, priority TEXT NOT NULL, correlation_id TEXT NOT NULL,
    causation_id TEXT NOT NULL, traceparent TEXT NOT NULL, tracestate TEXT, started_at INTEGER NOT NULL, ended_at INTEGER
  ) STRICT;
  CREATE INDEX IF NOT EXISTS cycle_runs_open ON cycle_runs (ended_at);
  CREATE TABLE IF NOT EXISTS cycle_keywords (
    place INTEGER PRIMARY KEY, cycle TEXT NOT NULL, keyword TEXT NOT NULL, spelled TEXT NOT NULL, verdict TEXT NOT NULL, request TEXT,
    is_stuck INTEGER NOT NULL DEFAULT 0, UNIQUE (cycle, keyword)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS cycle_keywords_by_request ON cycle_keywords (request);
  CREATE TABLE IF NOT EXISTS cycle_ends (
    place INTEGER PRIMARY KEY, cycle TEXT NOT NULL, round INTEGER NOT NULL, outcomes TEXT NOT NULL, is_told INTEGER NOT NULL DEFAULT 0,
    UNIQUE (cycle, round)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS cycle_ends_untold ON cycle_ends (is_told);
  CREATE TABLE IF NOT EXISTS milestones (
    content_id TEXT NOT NULL, what TEXT NOT NULL CHECK (what IN ('generated', 'published')), PRIMARY KEY (content_id, what)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS totals (what TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS audits (instance_id TEXT PRIMARY KEY, at INTEGER NOT NULL, answer TEXT NOT NULL) STRICT, WITHOUT ROWID;`;

/**
 * Statements that add columns which the first version of the tables did not have. The column `rank` orders requests: 0 for high priority, 1
 * for normal, 2 for low.
 */
export const BRAND_CHANGES = ["ALTER TABLE requests ADD COLUMN rank INTEGER NOT NULL DEFAULT 1"];

/** The row with the agent's tenant, brand and progress. */
export interface AgentRow extends Record<string, SqlStorageValue> {
  tenant_id: string;
  brand: string;
  acquainted: number;
  noted: number;
  looked_at: number;
}
