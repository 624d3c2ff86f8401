-- The accounts that have a limit, so that they can be counted. The budget itself is an object.
CREATE TABLE budget_accounts (
  tenant_id TEXT    NOT NULL,
  account   TEXT    NOT NULL,
  since_at  INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, account)
) STRICT, WITHOUT ROWID;

-- How many bytes a tenant has uploaded in which hour since 1970: a day of them at most.
CREATE TABLE uploads (
  tenant_id TEXT    NOT NULL,
  hour      INTEGER NOT NULL,
  bytes     INTEGER NOT NULL CHECK (bytes >= 0),
  PRIMARY KEY (tenant_id, hour)
) STRICT, WITHOUT ROWID;
