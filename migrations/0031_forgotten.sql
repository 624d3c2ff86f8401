-- People who were forgotten: an HMAC of their id, so that nothing brings them back. Whoever has not the key cannot tell who it was.
CREATE TABLE forgotten (
  tenant_id    TEXT    NOT NULL,
  pseudonym    TEXT    NOT NULL CHECK (pseudonym GLOB 'forgotten-*' AND length(pseudonym) = 42),
  forgotten_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, pseudonym)
) STRICT, WITHOUT ROWID;

-- Forgettings under way. What is still searched for stands here alone, and goes with the row when nothing of it is left.
CREATE TABLE forgettings (
  tenant_id   TEXT    NOT NULL,
  pseudonym   TEXT    NOT NULL,
  contact_id  TEXT    NOT NULL,
  -- What identifies the person, and how far the search is. NULL until it has begun.
  person      TEXT    CHECK (person IS NULL OR json_type(person) = 'object'),
  progress    TEXT    CHECK (progress IS NULL OR json_type(progress) = 'object'),
  asked_by    TEXT    NOT NULL,
  reason      TEXT    NOT NULL,
  asked_at    INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, pseudonym)
) STRICT, WITHOUT ROWID;
