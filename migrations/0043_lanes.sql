-- Lanes that do not flow, as their objects have noted them: one row while a lane stands still or holds a backlog. A lane that flows has none.
CREATE TABLE lanes (
  tenant_id TEXT    NOT NULL,
  lane      TEXT    NOT NULL,
  key       TEXT    NOT NULL,
  state     TEXT    NOT NULL CHECK (state IN ('moving', 'waiting', 'retrying', 'delayed', 'paused', 'held', 'unknown')),
  why       TEXT,
  depth     INTEGER NOT NULL,
  oldest_at INTEGER,
  -- The head as JSON, without its payload. NULL for an empty lane that a person has paused.
  head      TEXT,
  -- The instances that it waits for, as JSON.
  ahead     TEXT    NOT NULL,
  noted_at  INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, lane, key)
) STRICT, WITHOUT ROWID;
