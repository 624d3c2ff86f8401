-- How far a queue has got in each stream of numbered messages, where its consumer has a rule for gaps. The streams of a tenant, a source and
-- a subject on a queue are told apart by a hash of all four.
CREATE TABLE sequences (
  id       BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  -- The place that was taken last: the number of its message and one more, because numbers begin with 0 or 1.
  last     INTEGER NOT NULL CHECK (last > before),
  -- The place behind which that write saw itself. One that saw another than there was is refused: last is NULL then.
  before   INTEGER NOT NULL CHECK (before >= 0),
  -- Places that were given up, the newest hundred, as a JSON list: what comes there late is no repeat.
  missing  TEXT    NOT NULL DEFAULT '[]',
  moved_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
