-- The tables of the brand engine: what research found and what was written from it.
CREATE TABLE research (
  id            TEXT    NOT NULL PRIMARY KEY,
  tenant_id     TEXT    NOT NULL,
  brand         TEXT    NOT NULL,
  keyword       TEXT    NOT NULL,
  sources       TEXT    NOT NULL CHECK (json_valid(sources)),
  researched_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE articles (
  id           TEXT    NOT NULL PRIMARY KEY,
  tenant_id    TEXT    NOT NULL,
  brand        TEXT    NOT NULL,
  keyword      TEXT    NOT NULL,
  slug         TEXT    NOT NULL,
  title        TEXT    NOT NULL,
  body         TEXT    NOT NULL,
  model        TEXT    NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  status       TEXT    NOT NULL CHECK (status IN ('draft', 'published')),
  url          TEXT,
  post_uri     TEXT,
  created_at   INTEGER NOT NULL,
  published_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX articles_by_brand ON articles (tenant_id, brand, status);
