-- The batch whose failed rows this batch tries again.
ALTER TABLE batches ADD COLUMN parent_id TEXT;
