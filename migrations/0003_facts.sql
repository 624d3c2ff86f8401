-- The projection of all ledgers: what they hold, as rows that can be asked for. It can be dropped and made anew.
-- A row is one fact by its name and its place in its ledger. In this order one ledger is read without another index. What no list is
-- ordered by stays in the body as it came, and is read from there: taking twelve columns apart took as long as inserting them.
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

-- The newest facts, and the lag, which is measured on them. The only index: each is one more row written per fact, and one by trace or by
-- job, whose names are random, dirties a page for every fact and took as long again as half a batch. By type, trace and job a page
-- looks at a bounded number of these, from the time that is asked for.
CREATE INDEX facts_by_time ON facts (tenant_id, recorded_at);

-- Every ledger that was ever projected: a projection that was dropped cannot say whose facts it lacks.
-- A row is written once, with the first facts of a ledger.
CREATE TABLE ledgers (
  tenant_id     TEXT    NOT NULL,
  entity        TEXT    NOT NULL,
  registered_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, entity)
) STRICT, WITHOUT ROWID;
