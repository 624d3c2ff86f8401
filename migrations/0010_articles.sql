-- Articles can be taken down and put up again, or be turned down before. The revision counts what became of one: events that
-- carry it can arrive in any order.
CREATE TABLE articles_next (
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
  status       TEXT    NOT NULL CHECK (status IN ('draft', 'published', 'unpublished', 'rejected')),
  revision     INTEGER NOT NULL DEFAULT 1 CHECK (revision >= 1),
  -- Where the page is or was, and what announced it.
  url          TEXT,
  post_uri     TEXT,
  created_at   INTEGER NOT NULL,
  -- When it was first published.
  published_at INTEGER
) STRICT, WITHOUT ROWID;

INSERT INTO articles_next (id, tenant_id, brand, keyword, slug, title, body, model, input_tokens, output_tokens, status,
  revision, url, post_uri, created_at, published_at)
SELECT id, tenant_id, brand, keyword, slug, title, body, model, input_tokens, output_tokens, status,
  iif(status = 'published', 2, 1), url, post_uri, created_at, published_at
FROM articles;

DROP TABLE articles;
ALTER TABLE articles_next RENAME TO articles;
-- What a brand has in a state, and what is up, by when it was published.
CREATE INDEX articles_by_brand ON articles (tenant_id, brand, status, published_at);
-- What a tenant has, newest first.
CREATE INDEX articles_by_time ON articles (tenant_id, created_at);
