-- What people are told of: one row for each time that a rule saw something in one group of samples. Of one rule and group at most one is open.
CREATE TABLE alerts (
  id             TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 32),
  rule           TEXT    NOT NULL,
  -- The labels of the group as JSON, in the order of their names.
  labels         TEXT    NOT NULL,
  state          TEXT    NOT NULL CHECK (state IN ('pending', 'firing', 'resolved')),
  severity       TEXT    NOT NULL CHECK (severity IN ('warning', 'critical')),
  value          REAL    NOT NULL,
  -- How often it happened. NULL where the rule is about a level.
  count          INTEGER,
  -- At most three ids of what it is about, as JSON.
  examples       TEXT    NOT NULL,
  since          INTEGER NOT NULL,
  critical_since INTEGER,
  milder_since   INTEGER,
  quiet_since    INTEGER,
  fired_at       INTEGER CHECK (state = 'pending' OR fired_at IS NOT NULL),
  -- What was told last, and when.
  told_at        INTEGER,
  told_severity  TEXT    CHECK (told_severity IN ('warning', 'critical') AND told_at IS NOT NULL OR told_severity IS NULL AND told_at IS NULL),
  last_at        INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  resolved_at    INTEGER CHECK ((state = 'resolved') = (resolved_at IS NOT NULL)),
  -- Nobody is told of it before then.
  muted_until    INTEGER,
  mute_reason    TEXT    CHECK ((mute_reason IS NULL) = (muted_until IS NULL)),
  -- One more with each write: of two that were made from the same, one is refused.
  version        INTEGER NOT NULL CHECK (version >= 1)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX alerts_open ON alerts (rule, labels) WHERE state <> 'resolved';
CREATE INDEX alerts_by_time ON alerts (since, id);
CREATE INDEX alerts_muted ON alerts (muted_until) WHERE muted_until IS NOT NULL;

-- Failures of the last minutes, of all tenants. Only what failed is in it.
CREATE INDEX instances_errored ON instances (updated_at) WHERE status = 'errored';
