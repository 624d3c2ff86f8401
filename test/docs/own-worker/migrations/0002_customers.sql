CREATE TABLE customers (
  tenant_id   TEXT    NOT NULL,
  id          TEXT    NOT NULL,
  account     TEXT    NOT NULL,
  mail        TEXT    NOT NULL,
  welcomed_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;
