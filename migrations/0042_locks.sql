-- Locks that have been held for some seconds, for people to look at. Whether one still is, its object says. A lock of the deployment
-- itself has an empty tenant.
CREATE TABLE locks (
  tenant_id TEXT    NOT NULL,
  name      TEXT    NOT NULL,
  token     INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;

-- The highest token under which something was written: a holder with a lower one is refused.
CREATE TABLE fences (
  tenant_id TEXT    NOT NULL,
  name      TEXT    NOT NULL,
  token     INTEGER NOT NULL,
  at        INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;
