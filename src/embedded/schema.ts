export const UPSTREAMS = ["search", "text", "pages", "social", "mastodon", "x"] as const;

/**
 * The outcome of a call to an embedded program. `charged`: the program did paid work. `repeated`: the program knew the call's key, and
 * returned the stored answer without a charge. `created`, `replaced`, `unchanged`, `removed`: the change of a page or a record. `refused`:
 * a fault rule applied, and the call had no effect.
 */
export const OUTCOMES = ["charged", "repeated", "created", "replaced", "unchanged", "removed", "refused"] as const;

/**
 * The ways in which the writer's answer can be unusable. `cut`: the first response contains only half of the answer, and the whole answer
 * is stored under the call's key. `chatty`: the answer is a whole article, surrounded by reasoning, prose and a fence.
 */
export const BAD_ANSWERS = ["truncated", "refused", "empty", "malformed", "cut", "chatty"] as const;

/** The embedded programs' tables. Rows of `calls` are never changed or deleted, because they are the record of all calls. */
const SCHEMA = `
CREATE TABLE IF NOT EXISTS calls (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  upstream TEXT NOT NULL CHECK (upstream IN (${quoted(UPSTREAMS)})),
  key      TEXT,
  subject  TEXT NOT NULL,
  at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  outcome  TEXT NOT NULL CHECK (outcome IN (${quoted(OUTCOMES)}))
) STRICT;

CREATE TABLE IF NOT EXISTS answers (
  key         TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  body        TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS faults (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  upstream     TEXT NOT NULL CHECK (upstream IN (${quoted(UPSTREAMS)})),
  match        TEXT NOT NULL,
  status       INTEGER NOT NULL CHECK (status BETWEEN 400 AND 599),
  remaining    INTEGER CHECK (remaining >= 0),
  retry_after  INTEGER CHECK (retry_after >= 0),
  after_effect INTEGER NOT NULL CHECK (after_effect IN (0, 1))
) STRICT;

CREATE TABLE IF NOT EXISTS answer_faults (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  match     TEXT NOT NULL,
  answer    TEXT NOT NULL CHECK (answer IN (${quoted(BAD_ANSWERS)})),
  remaining INTEGER CHECK (remaining >= 0)
) STRICT;

CREATE TABLE IF NOT EXISTS sessions (
  token      TEXT PRIMARY KEY,
  did        TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS records (
  uri   TEXT PRIMARY KEY,
  cid   TEXT NOT NULL,
  value TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS posts (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  upstream TEXT NOT NULL,
  account  TEXT NOT NULL,
  key      TEXT,
  text     TEXT NOT NULL,
  at       INTEGER NOT NULL
) STRICT;
`;

/** The tables with a CHECK of allowed words. Each entry lists the values that a column of the table may have. */
const LISTS = { calls: [...UPSTREAMS, ...OUTCOMES], faults: UPSTREAMS, answer_faults: BAD_ANSWERS } as const;

/**
 * Creates the tables, or upgrades the tables of an older deployment. SQLite cannot change a CHECK, so one transaction renames a table that
 * lacks a word, creates the table again and copies the rows.
 */
export function prepare(storage: DurableObjectStorage): void {
  storage.transactionSync(() => {
    const outdated = Object.entries(LISTS).filter(([table, words]) => {
      const [row] = storage.sql.exec<{ sql: string }>("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", table).toArray();
      return row !== undefined && words.some((word) => !row.sql.includes(`'${word}'`));
    });
    for (const [table] of outdated) storage.sql.exec(`ALTER TABLE ${table} RENAME TO ${table}_before`);
    storage.sql.exec(SCHEMA);
    for (const [table] of outdated) storage.sql.exec(`INSERT INTO ${table} SELECT * FROM ${table}_before; DROP TABLE ${table}_before`);
  });
}

function quoted(words: readonly string[]): string {
  return words.map((word) => `'${word}'`).join(", ");
}
