CREATE TABLE countries (code TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

CREATE TABLE people (
  file    TEXT NOT NULL,
  name    TEXT NOT NULL,
  country TEXT NOT NULL REFERENCES countries (code),
  PRIMARY KEY (file, name)
) STRICT, WITHOUT ROWID;

INSERT INTO countries (code) VALUES ('AT'), ('DE');
