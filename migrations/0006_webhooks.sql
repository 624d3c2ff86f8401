-- Webhooks. Every change of the configuration of an endpoint is a row. The one that nothing has replaced is in force.
CREATE TABLE webhook_versions (
  tenant_id   TEXT    NOT NULL,
  endpoint_id TEXT    NOT NULL,
  version     INTEGER NOT NULL CHECK (version >= 1),
  url         TEXT    NOT NULL,
  fact_types  TEXT    NOT NULL CHECK (json_valid(fact_types) AND json_array_length(fact_types) >= 1),
  description TEXT    NOT NULL,
  state       TEXT    NOT NULL CHECK (state IN ('enabled', 'disabled', 'deleted')),
  -- Why it was disabled, when nobody asked for that.
  reason      TEXT,
  -- When the endpoint came into being, the same in all its versions.
  created_at  INTEGER NOT NULL,
  changed_at  INTEGER NOT NULL,
  changed_by  TEXT    NOT NULL,
  replaced_at INTEGER,
  PRIMARY KEY (tenant_id, endpoint_id, version)
) STRICT, WITHOUT ROWID;

CREATE INDEX webhook_endpoints ON webhook_versions (tenant_id, created_at, endpoint_id) WHERE replaced_at IS NULL;

-- Which generations of the secret of an endpoint sign, and until when. The secrets themselves are derived, and kept nowhere.
CREATE TABLE webhook_secrets (
  tenant_id   TEXT    NOT NULL,
  endpoint_id TEXT    NOT NULL,
  generation  INTEGER NOT NULL CHECK (generation >= 1),
  created_at  INTEGER NOT NULL,
  valid_until INTEGER,
  PRIMARY KEY (tenant_id, endpoint_id, generation)
) STRICT, WITHOUT ROWID;

-- One row for each match of a fact and an endpoint. Its id is also that of its instance, and what the receiver is given as webhook-id.
CREATE TABLE webhook_deliveries (
  id             TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 32),
  tenant_id      TEXT    NOT NULL,
  endpoint_id    TEXT    NOT NULL,
  config_version INTEGER NOT NULL CHECK (config_version >= 1),
  entity         TEXT    NOT NULL,
  fact_id        TEXT    NOT NULL,
  fact_type      TEXT    NOT NULL,
  state          TEXT    NOT NULL CHECK (state IN ('pending', 'sent', 'failed', 'gone', 'skipped')),
  matched_at     INTEGER NOT NULL,
  -- How often it was tried, and the newest of these attempts, oldest first.
  tried          INTEGER NOT NULL DEFAULT 0 CHECK (tried >= 0),
  attempts       TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(attempts))
) STRICT, WITHOUT ROWID;

CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (tenant_id, endpoint_id, matched_at, id);
