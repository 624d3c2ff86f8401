-- What the slow walk has found two records to say differently of one thing, and has found again some time later. A first sight stands here
-- too, as suspected, until the second look. Neither names a person nor says what a message says.
CREATE TABLE divergences (
  kind        TEXT    NOT NULL,
  -- What it is about: an instance, a message, a letter, or a digest where the thing itself has a name that people gave it.
  what        TEXT    NOT NULL,
  -- NULL for what is nobody in particular.
  tenant_id   TEXT,
  -- Which check has found it, and from where a slice of that check meets it first.
  found_by    TEXT    NOT NULL,
  place       TEXT    NOT NULL,
  -- What each side says.
  says        TEXT    NOT NULL,
  state       TEXT    NOT NULL CHECK (state IN ('suspected', 'mending', 'open', 'mended', 'gone')),
  first_at    INTEGER NOT NULL,
  seen_at     INTEGER NOT NULL,
  times       INTEGER NOT NULL DEFAULT 1 CHECK (times >= 1),
  -- How often it was mended.
  mends       INTEGER NOT NULL DEFAULT 0 CHECK (mends >= 0),
  -- When it is looked at next.
  look_at     INTEGER CHECK ((look_at IS NULL) = (state IN ('mended', 'gone'))),
  ended_at    INTEGER CHECK ((ended_at IS NULL) = (look_at IS NOT NULL)),
  PRIMARY KEY (kind, what)
) STRICT, WITHOUT ROWID;

CREATE INDEX divergences_to_look_at ON divergences (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX divergences_by_state ON divergences (state, first_at, what);
CREATE INDEX divergences_by_tenant ON divergences (tenant_id, state, first_at, what);

-- The open letters of messages whose instances never started. Few messages are given up, so few rows have an entry.
CREATE INDEX dead_letters_of_instance ON dead_letters (instance_id) WHERE state = 'open' AND instance_id IS NOT NULL;
