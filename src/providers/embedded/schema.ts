/** The embedded programs' tables. `calls` only ever grows: it is the evidence. */
export const SCHEMA = `
CREATE TABLE IF NOT EXISTS calls (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  upstream TEXT NOT NULL CHECK (upstream IN ('search', 'text', 'pages', 'social')),
  key      TEXT,
  subject  TEXT NOT NULL,
  at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  outcome  TEXT NOT NULL CHECK (outcome IN ('charged', 'repeated', 'created', 'replaced', 'unchanged', 'removed', 'refused'))
) STRICT;

CREATE TABLE IF NOT EXISTS answers (
  key         TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  body        TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS faults (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  upstream     TEXT NOT NULL CHECK (upstream IN ('search', 'text', 'pages', 'social')),
  match        TEXT NOT NULL,
  status       INTEGER NOT NULL CHECK (status BETWEEN 400 AND 599),
  remaining    INTEGER CHECK (remaining >= 0),
  retry_after  INTEGER CHECK (retry_after >= 0),
  after_effect INTEGER NOT NULL CHECK (after_effect IN (0, 1))
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
`;
