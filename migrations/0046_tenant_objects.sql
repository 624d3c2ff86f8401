-- Rooms and pull queues that may hold something of a tenant. Objects cannot be listed: by its row one is found when the tenant is deleted.
CREATE TABLE tenant_objects (
  tenant_id TEXT NOT NULL,
  -- What their class is bound as.
  binding   TEXT NOT NULL CHECK (binding IN ('ROOMS', 'PULL_QUEUES')),
  name      TEXT NOT NULL,
  PRIMARY KEY (tenant_id, binding, name)
) STRICT, WITHOUT ROWID;
