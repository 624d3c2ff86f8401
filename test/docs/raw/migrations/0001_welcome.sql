-- One row per accepted command. Its id is also the instance's.
CREATE TABLE commands (
  id          TEXT    NOT NULL PRIMARY KEY,
  tenant_id   TEXT    NOT NULL,
  fingerprint TEXT    NOT NULL,
  envelope    TEXT    NOT NULL CHECK (json_valid(envelope)),
  status      TEXT    NOT NULL CHECK (status IN ('accepted', 'queued', 'running', 'in_doubt', 'complete', 'errored', 'dead')),
  deliveries  INTEGER NOT NULL DEFAULT 0,
  error       TEXT,
  check_at    INTEGER
) STRICT;
CREATE INDEX commands_to_check ON commands (check_at) WHERE check_at IS NOT NULL;

-- One row per guarded effect. A write that would break the fence sets `state` to NULL, which undoes its whole batch.
CREATE TABLE effects (
  command_id  TEXT    NOT NULL,
  step        TEXT    NOT NULL,
  class       TEXT    NOT NULL CHECK (class IN ('lookup', 'once')),
  state       TEXT    NOT NULL CHECK (state IN ('claimed', 'failed', 'in_doubt', 'confirmed', 'done')),
  epoch       INTEGER NOT NULL,
  token       TEXT    NOT NULL,
  repeats     INTEGER NOT NULL DEFAULT 0,
  lease_until INTEGER NOT NULL,
  input       TEXT    NOT NULL,
  output      TEXT,
  error       TEXT,
  PRIMARY KEY (command_id, step)
) STRICT, WITHOUT ROWID;

-- Events committed with an effect. A row is confirmed by the consumer that took its message.
CREATE TABLE outbox (
  id           TEXT    NOT NULL PRIMARY KEY,
  command_id   TEXT    NOT NULL,
  envelope     TEXT    NOT NULL,
  due_at       INTEGER NOT NULL,
  confirmed_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_open ON outbox (due_at) WHERE confirmed_at IS NULL;

CREATE TABLE dead_letters (
  id          TEXT    NOT NULL PRIMARY KEY,
  tenant_id   TEXT,
  queue       TEXT    NOT NULL,
  body        TEXT    NOT NULL,
  reason      TEXT    NOT NULL,
  error       TEXT    NOT NULL,
  captured_at INTEGER NOT NULL,
  state       TEXT    NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'replayed'))
) STRICT, WITHOUT ROWID;

-- What operators did. A row without applied_at is promised and not yet carried out on the platform.
CREATE TABLE actions (
  id         TEXT    NOT NULL PRIMARY KEY,
  tenant_id  TEXT    NOT NULL,
  actor      TEXT    NOT NULL,
  verb       TEXT    NOT NULL,
  target     TEXT    NOT NULL,
  command_id TEXT    NOT NULL,
  event_type TEXT,
  reason     TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  applied_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE customers (
  tenant_id   TEXT    NOT NULL,
  id          TEXT    NOT NULL,
  account     TEXT    NOT NULL,
  mail        TEXT    NOT NULL,
  welcomed_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;
