-- The database tables of the app. The package packages/millrace/migrations has those of the engine.

CREATE TABLE articles (
  id            TEXT    NOT NULL PRIMARY KEY,
  tenant_id     TEXT    NOT NULL,
  brand         TEXT    NOT NULL,
  keyword       TEXT    NOT NULL,
  slug          TEXT    NOT NULL,
  title         TEXT    NOT NULL,
  body          TEXT    NOT NULL,
  model         TEXT    NOT NULL,
  input_tokens  INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  status        TEXT    NOT NULL CHECK (status IN ('draft', 'published', 'unpublished', 'rejected')),
  revision      INTEGER NOT NULL DEFAULT 1 CHECK (revision >= 1),
  -- The URL of the page, which remains after the page is removed, and the URI of the post that announced the page.
  url           TEXT,
  post_uri      TEXT,
  created_at    INTEGER NOT NULL,
  -- Time of the first publication.
  published_at  INTEGER,
  description   TEXT    NOT NULL DEFAULT '',
  prompt        TEXT,
  store         TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX articles_by_brand ON articles (tenant_id, brand, status, published_at);
CREATE INDEX articles_by_time ON articles (tenant_id, created_at);

CREATE TABLE batch_keys (
  tenant_id TEXT    NOT NULL,
  batch_id  TEXT    NOT NULL,
  key       TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, batch_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE batch_parts (
  tenant_id TEXT    NOT NULL,
  batch_id  TEXT    NOT NULL,
  report    TEXT    NOT NULL CHECK (report IN ('errors', 'result')),
  part      INTEGER NOT NULL CHECK (part >= 0),
  key       TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, batch_id, report, part)
) STRICT, WITHOUT ROWID;

CREATE TABLE batches (
  tenant_id     TEXT    NOT NULL,
  batch_id      TEXT    NOT NULL CHECK (length(batch_id) BETWEEN 1 AND 64),
  operation     TEXT    NOT NULL CHECK (operation IN ('import', 'export', 'reconcile')),
  dataset       TEXT    NOT NULL,
  format        TEXT    NOT NULL CHECK (format IN ('csv', 'jsonl')),
  formulas      TEXT    NOT NULL CHECK (formulas IN ('escape', 'keep')),
  -- Distinguishes a repeated request from a reused id.
  fingerprint   TEXT    NOT NULL,
  instance_id   TEXT    NOT NULL CHECK (length(instance_id) = 32),
  -- For an import: the key and the version of the file in R2, and the layout of the rows in the file. NULL for an export.
  file_key      TEXT,
  file_etag     TEXT,
  layout        TEXT    CHECK (layout IS NULL OR json_valid(layout)),
  total_bytes   INTEGER,
  -- The state of the batch. No state means that the batch has failed. The instance of a failed batch has the status errored.
  state         TEXT    NOT NULL DEFAULT 'accepted' CHECK (state IN ('accepted', 'running', 'cancelling', 'cancelled', 'complete')),
  read_bytes    INTEGER NOT NULL DEFAULT 0,
  rows_done     INTEGER NOT NULL DEFAULT 0,
  rows_failed   INTEGER NOT NULL DEFAULT 0,
  rows_skipped  INTEGER NOT NULL DEFAULT 0,
  same          INTEGER NOT NULL DEFAULT 0,
  different     INTEGER NOT NULL DEFAULT 0,
  only_there    INTEGER NOT NULL DEFAULT 0,
  only_here     INTEGER NOT NULL DEFAULT 0,
  -- Each write of the batch increases progress, so that a client of the event stream can continue after the last value that it received.
  progress      INTEGER NOT NULL DEFAULT 0,
  cancel_reason TEXT,
  created_at    INTEGER NOT NULL,
  started_at    INTEGER,
  updated_at    INTEGER NOT NULL,
  ended_at      INTEGER,
  PRIMARY KEY (tenant_id, batch_id),
  CHECK ((ended_at IS NULL) = (state NOT IN ('cancelled', 'complete')))
) STRICT, WITHOUT ROWID;
CREATE INDEX batches_by_time ON batches (tenant_id, created_at, batch_id);

CREATE TABLE brands (
  tenant_id        TEXT    NOT NULL,
  brand            TEXT    NOT NULL CHECK (length(brand) BETWEEN 1 AND 60),
  -- Maximum number of articles that are drafts or in progress. The agent delays further articles.
  max_drafts       INTEGER CHECK (max_drafts >= 1),
  -- Maximum number of commands that the agent sends per second.
  rate_per_second  REAL    CHECK (rate_per_second > 0),
  -- Whether publication needs an approval, the time limit of the approval, and the decision if nobody decides within the time limit.
  approval         TEXT    CHECK (approval IN ('none', 'required')),
  approval_timeout TEXT,
  approval_default TEXT    CHECK (approval_default IN ('approve', 'reject')),
  updated_at       INTEGER,
  updated_by       TEXT,
  CHECK ((updated_at IS NULL) = (max_drafts IS NULL)),
  PRIMARY KEY (tenant_id, brand)
) STRICT, WITHOUT ROWID;

CREATE TABLE budget_accounts (
  tenant_id TEXT    NOT NULL,
  account   TEXT    NOT NULL,
  since_at  INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, account)
) STRICT, WITHOUT ROWID;

CREATE TABLE contacts (
  tenant_id   TEXT    NOT NULL,
  contact_id  TEXT    NOT NULL CHECK (length(contact_id) BETWEEN 1 AND 200),
  email       TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  properties  TEXT    NOT NULL CHECK (json_type(properties) = 'object'),
  revision    INTEGER NOT NULL CHECK (revision >= 1),
  updated_at  INTEGER NOT NULL,
  -- The id of the last batch that wrote the row.
  imported_by TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, contact_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE crm_accounts (
  tenant_id  TEXT    NOT NULL PRIMARY KEY,
  -- NULL while the links of the previous account are being deleted. While the account is NULL, no push to the CRM may run.
  account    TEXT,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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

CREATE TABLE crm_links (
  tenant_id  TEXT    NOT NULL,
  contact_id TEXT    NOT NULL,
  -- The id of the CRM record of the contact. NULL if the contact has no record.
  crm_id     TEXT,
  -- linked: the contact has a record. none: the CRM never had the contact. merged: the contact is an alias of another contact, and only the
  -- record of the other contact is used. cut: the record was deleted in the CRM.
  state      TEXT    NOT NULL CHECK (state IN ('linked', 'none', 'merged', 'cut')),
  -- The newest revision of the contact that certainly arrived in the CRM. It is lower than the revision of the contact while changes are
  -- not sent yet.
  revision   INTEGER NOT NULL CHECK (revision >= 0),
  -- The values of the CRM when they were last read or written, by property. A contact or a CRM record with other values has changed since.
  known      TEXT    NOT NULL CHECK (json_type(known) = 'object'),
  -- Time of the newest state that was read from the CRM, by the clock of the CRM. An older state is ignored.
  read_at    INTEGER,
  -- The error of the last push. NULL if the last push had no error.
  error      TEXT    CHECK (error IS NULL OR json_valid(error)),
  updated_at INTEGER NOT NULL,
  maybe      TEXT    NOT NULL DEFAULT '[]' CHECK (json_type(maybe) = 'array'),
  version    INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (tenant_id, contact_id),
  CHECK ((state = 'linked') = (crm_id IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX crm_links_by_record ON crm_links (tenant_id, crm_id) WHERE crm_id IS NOT NULL;

CREATE TABLE crm_sends (
  tenant_id TEXT    NOT NULL,
  -- Identifies the instance and the step that pushes, so that a repeat of the step finds its own row.
  send_id   TEXT    NOT NULL,
  -- Until this time, no other push may send the contacts. After this time, the push is regarded as interrupted, and the CRM may have
  -- received the values of the push.
  until     INTEGER NOT NULL,
  -- [{id, version, sent: [{property: value}]}]: for each contact its id, the version of its link when the link was read, and the values
  -- that each attempt sends.
  contacts  TEXT    NOT NULL CHECK (json_type(contacts) = 'array'),
  -- A push whose row is outdated violates this constraint, so that its step reads the contacts again.
  CONSTRAINT contact_changed_meanwhile CHECK (send_id <> ''),
  PRIMARY KEY (tenant_id, send_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE crm_syncs (
  tenant_id   TEXT    NOT NULL,
  sync_id     TEXT    NOT NULL CHECK (length(sync_id) BETWEEN 1 AND 64),
  scope       TEXT    NOT NULL CHECK (scope IN ('changed', 'all')),
  instance_id TEXT    NOT NULL CHECK (length(instance_id) = 32),
  -- The state of the sync. No state means that the sync has failed. The instance of a failed sync has the status errored.
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

CREATE TABLE facts (
  tenant_id      TEXT    NOT NULL,
  entity         TEXT    NOT NULL,
  sequence       INTEGER NOT NULL CHECK (sequence >= 1),
  fact_id        TEXT    NOT NULL,
  recorded_at    INTEGER NOT NULL,
  body           TEXT    NOT NULL CHECK (json_valid(body)),
  projected_at   INTEGER NOT NULL,
  type           TEXT    NOT NULL GENERATED ALWAYS AS (body->>'type') VIRTUAL CHECK (type IN
    ('outcome', 'charge', 'payout', 'contact_merged', 'webhook_triggered', 'webhook_sent', 'webhook_failed', 'reconciliation')),
  subtype        TEXT    GENERATED ALWAYS AS (body->>'subtype') VIRTUAL,
  occurred_at    INTEGER NOT NULL GENERATED ALWAYS AS (body->>'occurred_at') VIRTUAL,
  trace_id       TEXT    NOT NULL GENERATED ALWAYS AS (body->>'trace_id') VIRTUAL CHECK (length(trace_id) = 32),
  correlation_id TEXT    NOT NULL GENERATED ALWAYS AS (body->>'correlation_id') VIRTUAL,
  causation_id   TEXT    NOT NULL GENERATED ALWAYS AS (body->>'causation_id') VIRTUAL,
  payload        TEXT    NOT NULL GENERATED ALWAYS AS (body->'payload') VIRTUAL,
  PRIMARY KEY (tenant_id, entity, sequence, fact_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX facts_by_time ON facts (tenant_id, recorded_at);

CREATE TABLE forgettings (
  tenant_id   TEXT    NOT NULL,
  pseudonym   TEXT    NOT NULL,
  contact_id  TEXT    NOT NULL,
  -- The identifiers of the person, and the progress of the search. Both are NULL before the search starts.
  person      TEXT    CHECK (person IS NULL OR json_type(person) = 'object'),
  progress    TEXT    CHECK (progress IS NULL OR json_type(progress) = 'object'),
  asked_by    TEXT    NOT NULL,
  reason      TEXT    NOT NULL,
  asked_at    INTEGER NOT NULL,
  instance_id TEXT,
  PRIMARY KEY (tenant_id, pseudonym)
) STRICT, WITHOUT ROWID;

CREATE TABLE forgotten (
  tenant_id    TEXT    NOT NULL,
  pseudonym    TEXT    NOT NULL CHECK (pseudonym GLOB 'forgotten-*' AND length(pseudonym) = 42),
  forgotten_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, pseudonym)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledgers (
  tenant_id     TEXT    NOT NULL,
  entity        TEXT    NOT NULL,
  registered_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, entity)
) STRICT, WITHOUT ROWID;

CREATE TABLE qualification_rules (
  tenant_id    TEXT    NOT NULL,
  version      INTEGER NOT NULL CHECK (version >= 1),
  effective_at INTEGER NOT NULL CHECK (version = 1 OR effective_at > created_at),
  rules        TEXT    NOT NULL CHECK (json_type(rules) = 'array'),
  created_at   INTEGER NOT NULL,
  who          TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, version)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER rules_stay BEFORE UPDATE ON qualification_rules BEGIN SELECT RAISE(ABORT, 'A version of the rules is never changed'); END;

CREATE TABLE research (
  id            TEXT    NOT NULL PRIMARY KEY,
  tenant_id     TEXT    NOT NULL,
  brand         TEXT    NOT NULL,
  keyword       TEXT    NOT NULL,
  sources       TEXT    NOT NULL CHECK (json_valid(sources)),
  researched_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX research_by_brand ON research (tenant_id, brand, researched_at);

CREATE TABLE text_calls (
  tenant_id        TEXT    NOT NULL,
  content_id       TEXT    NOT NULL,
  attempt          INTEGER NOT NULL CHECK (attempt >= 1),
  brand            TEXT    NOT NULL,
  prompt           TEXT    NOT NULL,
  model            TEXT    NOT NULL,
  answer_id        TEXT,
  max_tokens       INTEGER NOT NULL CHECK (max_tokens >= 1),
  input_tokens     INTEGER CHECK (input_tokens >= 0),
  output_tokens    INTEGER CHECK (output_tokens >= 0),
  cached_tokens    INTEGER CHECK (cached_tokens >= 0),
  reasoning_tokens INTEGER CHECK (reasoning_tokens >= 0),
  finish           TEXT,
  outcome          TEXT    NOT NULL CHECK (outcome IN ('written', 'truncated', 'refused', 'empty', 'malformed')),
  paid_at          INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, content_id, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX text_calls_by_time ON text_calls (tenant_id, paid_at);

CREATE TABLE uploads (
  tenant_id TEXT    NOT NULL,
  hour      INTEGER NOT NULL,
  bytes     INTEGER NOT NULL CHECK (bytes >= 0),
  PRIMARY KEY (tenant_id, hour)
) STRICT, WITHOUT ROWID;

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
  -- The number of attempts, and a list of the newest attempts, oldest first.
  tried          INTEGER NOT NULL DEFAULT 0 CHECK (tried >= 0),
  attempts       TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(attempts)),
  redelivery     TEXT,
  instance_id    TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (tenant_id, endpoint_id, matched_at, id);

CREATE TABLE webhook_secrets (
  tenant_id   TEXT    NOT NULL,
  endpoint_id TEXT    NOT NULL,
  generation  INTEGER NOT NULL CHECK (generation >= 1),
  created_at  INTEGER NOT NULL,
  valid_until INTEGER,
  PRIMARY KEY (tenant_id, endpoint_id, generation)
) STRICT, WITHOUT ROWID;

CREATE TABLE webhook_versions (
  tenant_id   TEXT    NOT NULL,
  endpoint_id TEXT    NOT NULL,
  version     INTEGER NOT NULL CHECK (version >= 1),
  url         TEXT    NOT NULL,
  fact_types  TEXT    NOT NULL CHECK (json_valid(fact_types) AND json_array_length(fact_types) >= 1),
  description TEXT    NOT NULL,
  state       TEXT    NOT NULL CHECK (state IN ('enabled', 'disabled', 'deleted')),
  -- The reason why the endpoint was disabled automatically.
  reason      TEXT,
  -- The time when the endpoint was created. All versions of the endpoint have the same time.
  created_at  INTEGER NOT NULL,
  changed_at  INTEGER NOT NULL,
  changed_by  TEXT    NOT NULL,
  replaced_at INTEGER,
  PRIMARY KEY (tenant_id, endpoint_id, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_endpoints ON webhook_versions (tenant_id, created_at, endpoint_id) WHERE replaced_at IS NULL;
