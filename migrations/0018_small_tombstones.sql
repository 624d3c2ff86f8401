-- A tombstone stays for over a year, so it is kept small: its two hashes as they are instead of in hex, and the day instead of the moment.
CREATE TABLE tombstones_next (
  id          BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  fingerprint BLOB    NOT NULL,
  pruned_day  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO tombstones_next (id, fingerprint, pruned_day) SELECT unhex(id), unhex(fingerprint), pruned_at / 86400000 FROM tombstones;
DROP TABLE tombstones;
ALTER TABLE tombstones_next RENAME TO tombstones;
