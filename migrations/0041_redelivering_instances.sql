-- The instance that makes a delivery again: the newest. NULL until then, and for one that was made again before this column was there.
ALTER TABLE webhook_deliveries ADD COLUMN instance_id TEXT;
