CREATE TABLE greetings (
  tenant_id TEXT    NOT NULL,
  name      TEXT    NOT NULL,
  at        INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;
