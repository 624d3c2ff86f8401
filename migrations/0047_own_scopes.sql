-- Which scopes there are is known to the code: an app has scopes of its own. Here a scope is a word.
CREATE TABLE tokens_next (
  id         TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  hash       TEXT    NOT NULL CHECK (length(hash) = 64),
  tenant_id  TEXT    NOT NULL CONSTRAINT tenant_is_a_name CHECK
    (length(tenant_id) BETWEEN 1 AND 64 AND tenant_id NOT GLOB '*[^a-z0-9_-]*' AND tenant_id GLOB '[a-z0-9]*'),
  actor      TEXT    NOT NULL CONSTRAINT actor_is_named CHECK (length(actor) BETWEEN 1 AND 100),
  scopes     TEXT    NOT NULL CONSTRAINT scopes_are_words CHECK
    (scopes GLOB '[a-z]*' AND scopes NOT GLOB '*[^a-z0-9_:. -]*' AND scopes NOT GLOB '* [^a-z]*' AND scopes NOT GLOB '* '),
  created_at INTEGER NOT NULL,
  -- NULL is never: only a local engine has such a token, or whoever wrote it here.
  expires_at INTEGER
) STRICT, WITHOUT ROWID;

INSERT INTO tokens_next (id, hash, tenant_id, actor, scopes, created_at, expires_at)
SELECT id, hash, tenant_id, actor, scopes, created_at, expires_at FROM tokens;
DROP TABLE tokens;
ALTER TABLE tokens_next RENAME TO tokens;

CREATE INDEX tokens_by_tenant ON tokens (tenant_id, created_at, id);
