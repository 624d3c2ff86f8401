-- What isolates have counted, as a recorder wrote it beside a commit of its own: the keeper takes it from here.
CREATE TABLE tallies (
  id   TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 36),
  at   INTEGER NOT NULL CHECK (at > 0),
  body TEXT    NOT NULL CHECK (json_valid(body))
) STRICT, WITHOUT ROWID;

-- Counts of the whole deployment: of each minute, of each hour, and of all time (at 0). One row for all series of a time.
CREATE TABLE counts (
  span    TEXT    NOT NULL CHECK (span IN ('minute', 'hour', 'ever')),
  at      INTEGER NOT NULL CHECK (at >= 0),
  body    TEXT    NOT NULL CHECK (json_valid(body)),
  -- Of the row of all time: each taking over of tallies raises it, and one that comes late is refused.
  version INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (span, at)
) STRICT, WITHOUT ROWID;
INSERT INTO counts (span, at, body) VALUES ('ever', 0, '{}');

-- How many letters wait, by queue and reason, without reading the letters.
CREATE INDEX dead_letters_open ON dead_letters (queue, reason) WHERE state = 'open';
