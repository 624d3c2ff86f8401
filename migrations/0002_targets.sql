-- The sites and the accounts of a brand as JSON, and the site whose pages are announced. If a column is NULL, the variables of the
-- deployment apply.
ALTER TABLE brands ADD COLUMN sites TEXT CHECK (sites IS NULL OR json_type(sites) = 'array');
ALTER TABLE brands ADD COLUMN accounts TEXT CHECK (accounts IS NULL OR json_type(accounts) = 'array');
ALTER TABLE brands ADD COLUMN announced_site TEXT;

-- The page of an article on one site. A page that was published before this table existed is in the row of its article.
CREATE TABLE article_pages (
  tenant_id    TEXT    NOT NULL,
  content_id   TEXT    NOT NULL,
  site         TEXT    NOT NULL,
  brand        TEXT    NOT NULL,
  kind         TEXT    NOT NULL,
  -- The position of the site in the settings of the brand.
  place        INTEGER NOT NULL,
  status       TEXT    NOT NULL CHECK (status IN ('published', 'unpublished')),
  revision     INTEGER NOT NULL CHECK (revision >= 1),
  -- The URL remains after the page is removed.
  url          TEXT    NOT NULL,
  -- The page store that has the page. NULL if the page is not published.
  store        TEXT,
  -- The last instance that published the page. NULL for pages that were published before this table existed.
  instance_id  TEXT,
  published_at INTEGER NOT NULL,
  changed_at   INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, content_id, site)
) STRICT, WITHOUT ROWID;

-- The post on one account that announces an article.
CREATE TABLE article_posts (
  tenant_id  TEXT    NOT NULL,
  content_id TEXT    NOT NULL,
  account    TEXT    NOT NULL,
  platform   TEXT    NOT NULL,
  uri        TEXT    NOT NULL,
  url        TEXT    NOT NULL,
  posted_at  INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, content_id, account)
) STRICT, WITHOUT ROWID;

CREATE INDEX article_pages_by_site ON article_pages (tenant_id, brand, site, status, published_at);
