-- 1 where what an instance did is taken back: its undo has come to its end. It stays when the instance is closed, and a retry, which does all of it again, sets it to 0.
-- No index, so an end costs what it did.
ALTER TABLE instances ADD COLUMN undone INTEGER NOT NULL DEFAULT 0 CHECK (undone IN (0, 1));
UPDATE instances SET undone = 1 WHERE status = 'terminated' AND undo IS NOT NULL;
