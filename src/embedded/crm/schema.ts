/**
 * The embedded CRM's tables. Rows of `calls` are never changed or deleted, because they are the record of all calls. The database enforces
 * that each key of the app has one live record, and each e-mail address one live contact.
 */
export const SCHEMA = `
CREATE TABLE IF NOT EXISTS records (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  object     TEXT NOT NULL CHECK (object IN ('contacts', 'companies')),
  key        TEXT,
  email      TEXT,
  properties TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  archived   INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
  merged_into INTEGER REFERENCES records (id)
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS one_record_per_key ON records (object, key) WHERE archived = 0;
CREATE UNIQUE INDEX IF NOT EXISTS one_contact_per_email ON records (email) WHERE archived = 0 AND object = 'contacts';

CREATE TABLE IF NOT EXISTS associations (
  contact INTEGER NOT NULL REFERENCES records (id),
  company INTEGER NOT NULL REFERENCES records (id),
  PRIMARY KEY (contact, company)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS calls (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  at             INTEGER NOT NULL,
  method         TEXT NOT NULL,
  path           TEXT NOT NULL,
  inputs         INTEGER NOT NULL,
  status         INTEGER NOT NULL,
  failed         INTEGER NOT NULL,
  lost           INTEGER NOT NULL CHECK (lost IN (0, 1)),
  correlation_id TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS calls_by_time ON calls (at);

CREATE TABLE IF NOT EXISTS faults (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  match        TEXT NOT NULL,
  key          TEXT,
  whole        INTEGER NOT NULL CHECK (whole IN (0, 1)),
  status       INTEGER NOT NULL CHECK (status BETWEEN 400 AND 599),
  category     TEXT,
  remaining    INTEGER CHECK (remaining >= 0),
  retry_after  INTEGER CHECK (retry_after >= 0),
  after_effect INTEGER NOT NULL CHECK (after_effect IN (0, 1))
) STRICT;

CREATE TABLE IF NOT EXISTS events (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  body    TEXT NOT NULL,
  attempt INTEGER NOT NULL DEFAULT 0,
  due_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS events_by_time ON events (due_at, id);

CREATE TABLE IF NOT EXISTS deliveries (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  at     INTEGER NOT NULL,
  url    TEXT NOT NULL,
  events TEXT NOT NULL,
  status INTEGER
) STRICT;
`;
