-- Limits that a tenant may look at: those that were taken from in its name. How each stands, its object says.
CREATE TABLE limits (
  tenant_id TEXT NOT NULL,
  name      TEXT NOT NULL,
  PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;
