-- The earlier batch, if this batch imports its failed rows again.
ALTER TABLE batches ADD COLUMN parent_id TEXT;
