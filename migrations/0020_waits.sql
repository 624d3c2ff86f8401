-- When the time of a wait was over without an event: from then on it takes none, and every later pass is told the same.
ALTER TABLE waits ADD COLUMN over_at INTEGER CHECK (over_at IS NULL OR signal_id IS NULL);

-- When the keeper told an instance of the event that its wait holds: it does not tell it again at every look.
ALTER TABLE waits ADD COLUMN told_at INTEGER;

DROP INDEX waits_by_subject;
CREATE INDEX waits_open ON waits (tenant_id, type, subject) WHERE signal_id IS NULL AND over_at IS NULL;
