-- What a step had behind it when it was begun, so that a later pass can tell another order from other code: JSON, a list.
-- First the entry that already says most of it (its label, or null), then what had settled since: labels, each in a list of its own when it had failed.
ALTER TABLE inbox ADD COLUMN after TEXT CHECK (after IS NULL OR json_valid(after));

-- With what errors those had failed, by label: the code caught them, so a later pass is told the same. An operator who retries wants it tried anew: NULL again.
ALTER TABLE inbox ADD COLUMN caught TEXT CHECK (caught IS NULL OR json_valid(caught));
