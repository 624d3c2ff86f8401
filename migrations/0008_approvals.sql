-- Questions to people. One row per question of an instance, kept as long as the instance: a restarted run is answered from it.
CREATE TABLE approvals (
  instance_id TEXT    NOT NULL,
  step        TEXT    NOT NULL,
  -- The instance and a digest of the step: whoever has the id finds the row by the first column of the primary key.
  id          TEXT    NOT NULL CHECK (id GLOB instance_id || '-*'),
  tenant_id   TEXT    NOT NULL,
  workflow    TEXT    NOT NULL,
  question    TEXT    NOT NULL CHECK (length(question) <= 500),
  details     TEXT    CHECK (details IS NULL OR json_valid(details)),
  state       TEXT    NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'rejected')),
  -- What becomes true when nobody answers in time.
  otherwise   TEXT    NOT NULL CHECK (otherwise IN ('approve', 'reject')),
  due_at      INTEGER NOT NULL,
  -- NULL when nobody answered in time.
  decided_by  TEXT,
  reason      TEXT,
  asked_at    INTEGER NOT NULL,
  decided_at  INTEGER CHECK ((decided_at IS NULL) = (state = 'pending')),
  PRIMARY KEY (instance_id, step)
) STRICT, WITHOUT ROWID;

CREATE INDEX approvals_by_time ON approvals (tenant_id, asked_at, id);

-- Which undo works on an instance, or has: the id of its action. NULL again when the instance is retried.
ALTER TABLE instances ADD COLUMN undo TEXT;

-- 1 when the code, as it was when the entry was written, could take the effect back.
ALTER TABLE inbox ADD COLUMN undoable INTEGER NOT NULL DEFAULT 0 CHECK (undoable IN (0, 1));
