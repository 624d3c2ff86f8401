-- Commands that are due by the clock. next_at is when the next one is. There is none while it is paused, or when its pattern has no more.
CREATE TABLE schedules (
  tenant_id   TEXT    NOT NULL,
  name        TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 80),
  cron        TEXT    NOT NULL,
  time_zone   TEXT    NOT NULL,
  command     TEXT    NOT NULL,
  payload     TEXT    NOT NULL CHECK (json_valid(payload)),
  -- A run that is later than this is missed.
  late_ms     INTEGER NOT NULL CHECK (late_ms >= 0),
  state       TEXT    NOT NULL CHECK (state IN ('active', 'paused')),
  next_at     INTEGER,
  -- Grows with each change: a run that was due under an older one leaves the newer one alone.
  revision    INTEGER NOT NULL DEFAULT 1 CHECK (revision >= 1),
  changed_at  INTEGER NOT NULL,
  changed_by  TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, name),
  CHECK (state = 'active' OR next_at IS NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;

-- What became of each time that was due. Times that passed for nothing share a row: from due_at to until_at, as many as times says.
CREATE TABLE schedule_runs (
  tenant_id   TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  due_at      INTEGER NOT NULL,
  state       TEXT    NOT NULL CHECK (state IN ('started', 'by_hand', 'refused', 'missed', 'paused')),
  until_at    INTEGER NOT NULL,
  times       INTEGER NOT NULL CHECK (times >= 1),
  instance_id TEXT,
  reason      TEXT,
  noted_at    INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name, due_at, state),
  CHECK ((state IN ('started', 'by_hand')) = (instance_id IS NOT NULL))
) STRICT, WITHOUT ROWID;
