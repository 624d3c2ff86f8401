-- When the message of a delayed command is delivered, in milliseconds. NULL for a command without a delay. No index, so a row costs what it did.
ALTER TABLE instances ADD COLUMN due_at INTEGER;
