-- How each contact stands in the CRM. A contact without a row was never sent there.
CREATE TABLE crm_links (
  tenant_id  TEXT    NOT NULL,
  contact_id TEXT    NOT NULL,
  -- The id of its record in the CRM. NULL when it has none.
  crm_id     TEXT,
  -- linked: it has a record. none: the CRM never took it. merged: it is known as another contact, whose record counts.
  -- cut: somebody deleted its record in the CRM.
  state      TEXT    NOT NULL CHECK (state IN ('linked', 'none', 'merged', 'cut')),
  -- Our revision that the CRM is known to have. It is smaller than that of the contact while something is still to be sent.
  revision   INTEGER NOT NULL CHECK (revision >= 0),
  -- What the CRM is known to have, property by property: whoever differs from it has changed.
  known      TEXT    NOT NULL CHECK (json_type(known) = 'object'),
  -- The time, by the CRM, of the newest state that was read there: an older reading that comes late changes nothing.
  read_at    INTEGER,
  -- Why the CRM refused it last. NULL when it did not.
  error      TEXT    CHECK (error IS NULL OR json_valid(error)),
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, contact_id),
  CHECK ((state = 'linked') = (crm_id IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX crm_links_by_record ON crm_links (tenant_id, crm_id) WHERE crm_id IS NOT NULL;

-- One row per sync of many contacts. Every chunk moves it on together with its own rows.
CREATE TABLE crm_syncs (
  tenant_id   TEXT    NOT NULL,
  sync_id     TEXT    NOT NULL CHECK (length(sync_id) BETWEEN 1 AND 64),
  scope       TEXT    NOT NULL CHECK (scope IN ('changed', 'all')),
  instance_id TEXT    NOT NULL CHECK (length(instance_id) = 32),
  -- errored is not here: that is for the instance to say.
  state       TEXT    NOT NULL CHECK (state IN ('running', 'complete')),
  done        INTEGER NOT NULL DEFAULT 0,
  failed      INTEGER NOT NULL DEFAULT 0,
  skipped     INTEGER NOT NULL DEFAULT 0,
  merged      INTEGER NOT NULL DEFAULT 0,
  taken       INTEGER NOT NULL DEFAULT 0,
  chunks      INTEGER NOT NULL DEFAULT 0,
  started_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  ended_at    INTEGER,
  PRIMARY KEY (tenant_id, sync_id),
  CHECK ((ended_at IS NULL) = (state = 'running'))
) STRICT, WITHOUT ROWID;

CREATE INDEX crm_syncs_by_time ON crm_syncs (tenant_id, started_at, sync_id);

-- Contacts that the CRM did not take in one sync, and why. Those that are waiting are tried again before the sync ends.
CREATE TABLE crm_failures (
  tenant_id      TEXT    NOT NULL,
  sync_id        TEXT    NOT NULL,
  contact_id     TEXT    NOT NULL,
  state          TEXT    NOT NULL CHECK (state IN ('waiting', 'failed')),
  category       TEXT    NOT NULL,
  message        TEXT    NOT NULL,
  correlation_id TEXT,
  tries          INTEGER NOT NULL DEFAULT 1,
  updated_at     INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, sync_id, contact_id)
) STRICT, WITHOUT ROWID;
