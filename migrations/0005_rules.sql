-- What qualifies an outcome, in versions. A version is added, never changed: an outcome is decided by the newest
-- that was in effect when it was recorded.
CREATE TABLE qualification_rules (
  tenant_id    TEXT    NOT NULL,
  version      INTEGER NOT NULL CHECK (version >= 1),
  effective_at INTEGER NOT NULL CHECK (version = 1 OR effective_at > created_at),
  rules        TEXT    NOT NULL CHECK (json_type(rules) = 'array'),
  created_at   INTEGER NOT NULL,
  who          TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, version)
) STRICT, WITHOUT ROWID;

-- On one line: what splits a file into its statements far away knows no more than that.
CREATE TRIGGER rules_stay BEFORE UPDATE ON qualification_rules BEGIN SELECT RAISE(ABORT, 'A version of the rules is never changed'); END;
