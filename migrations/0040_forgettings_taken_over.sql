-- The command that goes on with a forgetting: the one that was asked for last. NULL for one that was asked for before this column was there.
ALTER TABLE forgettings ADD COLUMN instance_id TEXT;
