-- Actions of an operator on many things at once: what was asked, what it matched at that moment, and how far it is. One that runs is worked on
-- by an instance: the one named here, which is of this pass.
CREATE TABLE bulk_actions (
  id            TEXT    NOT NULL PRIMARY KEY,
  tenant_id     TEXT    NOT NULL,
  actor         TEXT    NOT NULL,
  verb          TEXT    NOT NULL,
  reason        TEXT    NOT NULL,
  -- The filter, or how many ids there were, and the ramp, the rate and the bounds.
  asked         TEXT    NOT NULL CHECK (json_valid(asked)),
  -- Tells a repeated request from a reused key.
  fingerprint   TEXT    NOT NULL,
  state         TEXT    NOT NULL CHECK (state IN ('running', 'complete', 'stopped', 'aborted')),
  why           TEXT,
  pass          INTEGER NOT NULL DEFAULT 1 CHECK (pass >= 1),
  instance_id   TEXT    NOT NULL,
  -- How many things it is about. NULL only within the write that makes the row.
  matched       INTEGER,
  done          INTEGER NOT NULL DEFAULT 0,
  skipped       INTEGER NOT NULL DEFAULT 0,
  failed        INTEGER NOT NULL DEFAULT 0,
  -- Up to where it is known what came of what was begun.
  looked        INTEGER NOT NULL DEFAULT 0,
  -- Where the stage that is judged began, and what was skipped and had failed by then.
  stage_from    INTEGER NOT NULL DEFAULT 0,
  stage_skipped INTEGER NOT NULL DEFAULT 0,
  stage_failed  INTEGER NOT NULL DEFAULT 0,
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL,
  ended_at      INTEGER CHECK ((ended_at IS NULL) = (state = 'running')),
  CHECK (done >= 0 AND skipped >= 0 AND failed >= 0 AND done + skipped + failed <= matched AND looked <= done + skipped + failed)
) STRICT, WITHOUT ROWID;

CREATE INDEX bulk_actions_by_time ON bulk_actions (tenant_id, created_at, id);
CREATE INDEX bulk_actions_running ON bulk_actions (tenant_id) WHERE state = 'running';

-- What a bulk action is about, as it was at the moment of the click: a thousand ids a row, in the order in which they are acted upon.
CREATE TABLE bulk_lists (
  tenant_id     TEXT    NOT NULL,
  bulk_id       TEXT    NOT NULL,
  n             INTEGER NOT NULL,
  ids           TEXT    NOT NULL CHECK (json_valid(ids)),
  PRIMARY KEY (tenant_id, bulk_id, n)
) STRICT;

-- What came of each of them, by its place in the list. What is not here yet is left.
CREATE TABLE bulk_items (
  tenant_id     TEXT    NOT NULL,
  bulk_id       TEXT    NOT NULL,
  result        TEXT    NOT NULL CHECK (result IN ('done', 'skipped', 'failed')),
  n             INTEGER NOT NULL,
  target        TEXT    NOT NULL,
  -- Why it was skipped or has failed: the code of the failure, and a sentence.
  code          TEXT,
  why           TEXT,
  at            INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, bulk_id, result, n)
) STRICT, WITHOUT ROWID;
