-- Durable Objects of the app that store 1 GB or more. The platform allows 10 GB per object.
CREATE TABLE object_sizes (
  tenant_id TEXT    NOT NULL,
  binding   TEXT    NOT NULL,
  object_id TEXT    NOT NULL,
  bytes     INTEGER NOT NULL CHECK (bytes >= 0),
  noted_at  INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, binding, object_id)
) STRICT, WITHOUT ROWID;
