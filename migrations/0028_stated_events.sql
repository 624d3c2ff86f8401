-- Events that the outside world has stated: one row for each key that was taken, so that a repeat is known and another payload is refused.
-- Kept as small as a tombstone, because it stays as long: hashes of the key, of the payload as it was read, and of the request word for word.
CREATE TABLE stated_events (
  id             BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  fingerprint    BLOB    NOT NULL CHECK (length(fingerprint) = 32),
  said           BLOB    NOT NULL CHECK (length(said) = 16),
  -- NULL when the event began a job of its own, which is named as the event is.
  correlation_id TEXT,
  stated_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
