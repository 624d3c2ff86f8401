-- Contacts as files bring them. The revision counts how often a row was written: whoever syncs them elsewhere compares it.
CREATE TABLE contacts (
  tenant_id   TEXT    NOT NULL,
  contact_id  TEXT    NOT NULL CHECK (length(contact_id) BETWEEN 1 AND 200),
  email       TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  properties  TEXT    NOT NULL CHECK (json_type(properties) = 'object'),
  revision    INTEGER NOT NULL CHECK (revision >= 1),
  updated_at  INTEGER NOT NULL,
  -- The batch that wrote the row last.
  imported_by TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, contact_id)
) STRICT, WITHOUT ROWID;

-- One row per batch job: what was asked for, and how far it is. Every chunk moves it on together with its own rows.
CREATE TABLE batches (
  tenant_id     TEXT    NOT NULL,
  batch_id      TEXT    NOT NULL CHECK (length(batch_id) BETWEEN 1 AND 64),
  operation     TEXT    NOT NULL CHECK (operation IN ('import', 'export', 'reconcile')),
  dataset       TEXT    NOT NULL,
  format        TEXT    NOT NULL CHECK (format IN ('csv', 'jsonl')),
  formulas      TEXT    NOT NULL CHECK (formulas IN ('escape', 'keep')),
  -- Tells the same request from a reused id.
  fingerprint   TEXT    NOT NULL,
  instance_id   TEXT    NOT NULL CHECK (length(instance_id) = 32),
  -- The file in R2 that is read, which version of it, and how its rows lie in it. NULL for an export.
  file_key      TEXT,
  file_etag     TEXT,
  layout        TEXT    CHECK (layout IS NULL OR json_valid(layout)),
  total_bytes   INTEGER,
  -- errored is not here: that is for the instance to say.
  state         TEXT    NOT NULL DEFAULT 'accepted' CHECK (state IN ('accepted', 'running', 'cancelling', 'cancelled', 'complete')),
  read_bytes    INTEGER NOT NULL DEFAULT 0,
  rows_done     INTEGER NOT NULL DEFAULT 0,
  rows_failed   INTEGER NOT NULL DEFAULT 0,
  rows_skipped  INTEGER NOT NULL DEFAULT 0,
  same          INTEGER NOT NULL DEFAULT 0,
  different     INTEGER NOT NULL DEFAULT 0,
  only_there    INTEGER NOT NULL DEFAULT 0,
  only_here     INTEGER NOT NULL DEFAULT 0,
  -- Grows with every write: what a follower of the stream has seen.
  progress      INTEGER NOT NULL DEFAULT 0,
  cancel_reason TEXT,
  created_at    INTEGER NOT NULL,
  started_at    INTEGER,
  updated_at    INTEGER NOT NULL,
  ended_at      INTEGER,
  PRIMARY KEY (tenant_id, batch_id),
  CHECK ((ended_at IS NULL) = (state NOT IN ('cancelled', 'complete')))
) STRICT, WITHOUT ROWID;

CREATE INDEX batches_by_time ON batches (tenant_id, created_at, batch_id);

-- The parts of the reports of a batch in R2, in order. An attempt that died may have left others there: only these count.
CREATE TABLE batch_parts (
  tenant_id TEXT    NOT NULL,
  batch_id  TEXT    NOT NULL,
  report    TEXT    NOT NULL CHECK (report IN ('errors', 'result')),
  part      INTEGER NOT NULL CHECK (part >= 0),
  key       TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, batch_id, report, part)
) STRICT, WITHOUT ROWID;

-- Keys that a file under reconciliation has and we have too: what is left of ours in the end is only here.
CREATE TABLE batch_keys (
  tenant_id TEXT NOT NULL,
  batch_id  TEXT NOT NULL,
  key       TEXT NOT NULL,
  PRIMARY KEY (tenant_id, batch_id, key)
) STRICT, WITHOUT ROWID;
