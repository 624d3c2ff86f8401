-- 1 when the undo of the instance is complete. A close keeps it. A retry, which does all of it again, sets it to 0.
-- Without an index, the end of a run writes as many rows as before.
ALTER TABLE instances ADD COLUMN undone INTEGER NOT NULL DEFAULT 0 CHECK (undone IN (0, 1));
UPDATE instances SET undone = 1 WHERE status = 'terminated' AND undo IS NOT NULL;
