-- What an entry was before a person skipped its step, as JSON: its state, token, lease and time. An empty object where there was none, so that it is gone again if
-- the output that was given is refused. NULL for an entry that nobody has skipped. No index, so an entry costs what it did.
ALTER TABLE inbox ADD COLUMN skipped_over TEXT CHECK (skipped_over IS NULL OR json_valid(skipped_over));
