-- The projection of all ledgers: what they hold, as rows that can be asked for. It can be dropped and made anew.
-- A row is one fact by its name and its place in its ledger; in this order one ledger is read without another index.
CREATE TABLE facts (
  tenant_id      TEXT    NOT NULL,
  entity         TEXT    NOT NULL,
  sequence       INTEGER NOT NULL CHECK (sequence >= 1),
  fact_id        TEXT    NOT NULL,
  type           TEXT    NOT NULL CHECK (type IN
    ('outcome', 'charge', 'payout', 'contact_merged', 'webhook_triggered', 'webhook_sent', 'webhook_failed', 'reconciliation')),
  subtype        TEXT,
  occurred_at    INTEGER NOT NULL,
  recorded_at    INTEGER NOT NULL,
  trace_id       TEXT    NOT NULL CHECK (length(trace_id) = 32),
  correlation_id TEXT    NOT NULL,
  causation_id   TEXT    NOT NULL,
  payload        TEXT    NOT NULL CHECK (json_valid(payload)),
  projected_at   INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, entity, sequence, fact_id)
) STRICT, WITHOUT ROWID;

-- Each index is one more row written per fact; each answers a question that would read a tenant's whole projection otherwise.
-- The newest facts, and the lag, which is measured on them. By type and by trace a page looks at a bounded number of these.
CREATE INDEX facts_by_time ON facts (tenant_id, recorded_at);
-- What one job led to, in the order of its pages: a job can be a large import. One by trace beside it took as long again as all
-- the rest of a batch (traces are random, so every fact dirties another page), and a trace belongs to a job.
CREATE INDEX facts_by_correlation ON facts (tenant_id, correlation_id, recorded_at);

-- Every ledger that was ever projected: a projection that was dropped cannot say whose facts it lacks. A row is written once, with a ledger's first facts.
CREATE TABLE ledgers (
  tenant_id     TEXT    NOT NULL,
  entity        TEXT    NOT NULL,
  registered_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, entity)
) STRICT, WITHOUT ROWID;
