-- By when an instance is to have ended, in milliseconds since 1970. NULL for one that nobody gave a deadline.
ALTER TABLE instances ADD COLUMN must_end_by INTEGER;

-- What the address that hears of its ends was told last: owed for nothing yet, or a run and a status, such as 1:complete. NULL for an instance that calls nobody.
ALTER TABLE instances ADD COLUMN callback TEXT;

-- GET /v1/instances?overdue=true, and their count. An instance without a deadline never enters it, and one that has a deadline leaves it with its end.
CREATE INDEX instances_by_deadline ON instances (tenant_id, must_end_by, id, workflow)
  WHERE must_end_by IS NOT NULL AND undo IS NULL AND status NOT IN ('complete', 'errored', 'terminated', 'dead', 'skipped');

-- Ends that an address has yet to be told of. An instance that calls nobody never enters it.
CREATE INDEX instances_to_call ON instances (updated_at)
  WHERE callback <> run || ':' || status AND status IN ('complete', 'errored', 'terminated', 'dead', 'skipped');
