-- Codes by which a browser signs in to the console, once and within minutes: each stands for the token that it was asked for with. Only a hash of it is kept.
CREATE TABLE sign_in_codes (
  hash       TEXT    NOT NULL PRIMARY KEY CHECK (length(hash) = 64),
  tenant_id  TEXT    NOT NULL,
  token_id   TEXT    NOT NULL,
  reason     TEXT    NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
  expires_at INTEGER NOT NULL,
  -- The token that it was traded for, NULL until then.
  used_by    TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX sign_in_codes_by_tenant ON sign_in_codes (tenant_id, expires_at);
