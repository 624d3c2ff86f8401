-- What a brand allows. A brand without a row has the defaults of src/brand/settings.ts.
CREATE TABLE brands (
  tenant_id        TEXT    NOT NULL,
  brand            TEXT    NOT NULL CHECK (length(brand) BETWEEN 1 AND 60),
  -- Drafts that may wait for their publication before nothing new is begun.
  max_drafts       INTEGER NOT NULL CHECK (max_drafts >= 1),
  -- Commands a second that a cycle fans out.
  rate_per_second  REAL    NOT NULL CHECK (rate_per_second > 0),
  -- Whether a person says yes before an article is published; how long that may take, and what is true if nobody answers.
  approval         TEXT    NOT NULL CHECK (approval IN ('none', 'required')),
  approval_timeout TEXT    NOT NULL,
  approval_default TEXT    NOT NULL CHECK (approval_default IN ('approve', 'reject')),
  updated_at       INTEGER NOT NULL,
  updated_by       TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, brand)
) STRICT, WITHOUT ROWID;
