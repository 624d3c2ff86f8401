-- The projection of all ledgers: what they hold, as rows that can be asked for. It can be dropped and made anew.
CREATE TABLE facts (
  tenant_id      TEXT    NOT NULL,
  entity         TEXT    NOT NULL,
  fact_id        TEXT    NOT NULL,
  sequence       INTEGER NOT NULL CHECK (sequence >= 1),
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
  PRIMARY KEY (tenant_id, entity, fact_id)
) STRICT, WITHOUT ROWID;
