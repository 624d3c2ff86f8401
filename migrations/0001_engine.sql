-- The tables of the engine. Every CHECK says what the types say, and every status has one owner (see ARCHITECTURE.md).
-- Times are milliseconds since the epoch by the clock of the database, unless a message brought its own.

-- One row per accepted command or subscribed event: this row is the acceptance. With a rowid, unlike its neighbours: its rows are
-- large and its ids are hashes, and inserting those in key order took 2.3 times as long (measured), for one written row less.
CREATE TABLE instances (
  id              TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 32),
  tenant_id       TEXT    NOT NULL,
  workflow        TEXT    NOT NULL,
  message_type    TEXT    NOT NULL,
  idempotency_key TEXT    NOT NULL,
  correlation_id  TEXT    NOT NULL,
  causation_id    TEXT    NOT NULL,
  subject         TEXT    NOT NULL,
  fingerprint     TEXT    NOT NULL,
  envelope        TEXT    NOT NULL CHECK (json_valid(envelope)),
  queue           TEXT,
  status          TEXT    NOT NULL CHECK (status IN
    ('accepted', 'queued', 'running', 'waiting', 'paused', 'in_doubt', 'complete', 'errored', 'terminated', 'dead', 'skipped')),
  deliveries      INTEGER NOT NULL DEFAULT 0 CHECK (deliveries >= 0),
  error           TEXT    CHECK (error IS NULL OR json_valid(error)),
  accepted_at     INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  check_at        INTEGER
) STRICT;

CREATE INDEX instances_by_time ON instances (tenant_id, accepted_at, id);
CREATE INDEX instances_by_correlation ON instances (tenant_id, correlation_id);
-- When the keeper looks at a row next. Rows that need nobody, or a person, are not in it.
CREATE INDEX instances_to_check ON instances (check_at) WHERE check_at IS NOT NULL;

-- One row per guarded step: the taken key, its outcome and the messages it emitted.
CREATE TABLE inbox (
  instance_id TEXT    NOT NULL,
  step        TEXT    NOT NULL,
  item        TEXT    NOT NULL DEFAULT '',
  generation  INTEGER NOT NULL DEFAULT 1 CHECK (generation >= 1),
  position    INTEGER NOT NULL,
  class       TEXT    NOT NULL CHECK (class IN ('commit', 'keyed', 'lookup', 'natural', 'once')),
  -- A write that would break the fence sets this to NULL, which aborts its whole batch.
  state       TEXT    NOT NULL CHECK (state IN ('claimed', 'failed', 'in_doubt', 'confirmed', 'done', 'superseded')),
  epoch       INTEGER NOT NULL CHECK (epoch >= 1),
  token       TEXT    NOT NULL,
  repeats     INTEGER NOT NULL DEFAULT 0 CHECK (repeats IN (0, 1)),
  lease_until INTEGER,
  input       TEXT,
  output      TEXT,
  output_ref  TEXT,
  messages    TEXT    CHECK (messages IS NULL OR json_valid(messages)),
  error       TEXT    CHECK (error IS NULL OR json_valid(error)),
  updated_at  INTEGER NOT NULL,
  PRIMARY KEY (instance_id, step, item, generation)
) STRICT, WITHOUT ROWID;

CREATE INDEX inbox_in_doubt ON inbox (updated_at) WHERE state = 'in_doubt';

-- Messages committed with a step and not yet confirmed by the consumer that took them.
CREATE TABLE outbox (
  id       TEXT    NOT NULL PRIMARY KEY,
  queue    TEXT    NOT NULL,
  body     TEXT    NOT NULL,
  delay_s  INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  error    TEXT,
  due_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Events kept for instances that wait, or will wait, for them, and who waits.
CREATE TABLE signals (
  id          TEXT    NOT NULL PRIMARY KEY,
  tenant_id   TEXT    NOT NULL,
  type        TEXT    NOT NULL,
  subject     TEXT    NOT NULL,
  envelope    TEXT    NOT NULL CHECK (json_valid(envelope)),
  received_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX signals_by_subject ON signals (tenant_id, type, subject, received_at);

CREATE TABLE waits (
  instance_id TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  workflow    TEXT    NOT NULL,
  tenant_id   TEXT    NOT NULL,
  type        TEXT    NOT NULL,
  subject     TEXT    NOT NULL,
  event_type  TEXT    NOT NULL,
  signal_id   TEXT,
  since_at    INTEGER NOT NULL,
  PRIMARY KEY (instance_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX waits_by_subject ON waits (tenant_id, type, subject) WHERE signal_id IS NULL;

-- Messages no consumer could finish, whole, with what went wrong.
CREATE TABLE dead_letters (
  id             TEXT    NOT NULL PRIMARY KEY,
  tenant_id      TEXT,
  queue          TEXT    NOT NULL,
  message_type   TEXT,
  idempotency_key TEXT,
  correlation_id TEXT,
  instance_id    TEXT,
  body           TEXT    NOT NULL,
  reason         TEXT    NOT NULL,
  issues         TEXT    CHECK (issues IS NULL OR json_valid(issues)),
  error          TEXT,
  attempts       INTEGER NOT NULL,
  first_at       INTEGER NOT NULL,
  captured_at    INTEGER NOT NULL,
  state          TEXT    NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'replayed', 'skipped')),
  settled_at     INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX dead_letters_by_time ON dead_letters (state, captured_at, id);

-- What operators did, and why. A row without applied_at is promised and not yet carried out on the platform: the keeper does it.
CREATE TABLE actions (
  id          TEXT    NOT NULL PRIMARY KEY,
  tenant_id   TEXT    NOT NULL,
  actor       TEXT    NOT NULL,
  verb        TEXT    NOT NULL,
  target      TEXT    NOT NULL,
  instance_id TEXT,
  reason      TEXT    NOT NULL,
  detail      TEXT    CHECK (detail IS NULL OR json_valid(detail)),
  result      TEXT    NOT NULL,
  at          INTEGER NOT NULL,
  applied_at  INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX actions_by_time ON actions (tenant_id, at, id);
CREATE INDEX actions_to_apply ON actions (at) WHERE applied_at IS NULL;

-- Keys whose rows were pruned: a late retry finds out that its work was done long ago.
CREATE TABLE tombstones (
  id          TEXT    NOT NULL PRIMARY KEY,
  fingerprint TEXT    NOT NULL,
  pruned_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Bearer tokens of the API. Only a hash of the secret is kept.
CREATE TABLE tokens (
  id         TEXT    NOT NULL PRIMARY KEY,
  hash       TEXT    NOT NULL CHECK (length(hash) = 64),
  tenant_id  TEXT    NOT NULL,
  actor      TEXT    NOT NULL,
  scopes     TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER
) STRICT, WITHOUT ROWID;
