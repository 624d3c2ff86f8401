-- The id of an earlier batch, if this batch imports the failed rows of the earlier batch again.
ALTER TABLE batches ADD COLUMN parent_id TEXT;
