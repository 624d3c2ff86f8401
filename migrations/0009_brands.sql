-- The brands that are known: those that somebody has set something for, and those whose agent has decided something. What nobody
-- has set is NULL, and the default of src/systems/brand/settings.ts holds.
CREATE TABLE brands (
  tenant_id        TEXT    NOT NULL,
  brand            TEXT    NOT NULL CHECK (length(brand) BETWEEN 1 AND 60),
  -- Articles that may be drafts, or on their way to becoming one, before nothing new is begun.
  max_drafts       INTEGER CHECK (max_drafts >= 1),
  -- Commands a second that the agent fans out.
  rate_per_second  REAL    CHECK (rate_per_second > 0),
  -- Whether a person says yes before an article is published, how long that may take, and what is true if nobody answers.
  approval         TEXT    CHECK (approval IN ('none', 'required')),
  approval_timeout TEXT,
  approval_default TEXT    CHECK (approval_default IN ('approve', 'reject')),
  updated_at       INTEGER,
  updated_by       TEXT,
  CHECK ((updated_at IS NULL) = (max_drafts IS NULL)),
  PRIMARY KEY (tenant_id, brand)
) STRICT, WITHOUT ROWID;

INSERT INTO brands (tenant_id, brand) SELECT DISTINCT tenant_id, brand FROM articles;

-- An audit reads which research of a brand is fresh.
CREATE INDEX research_by_brand ON research (tenant_id, brand, researched_at);
