-- When the attempt began that holds or has recorded the entry, in milliseconds, where a pass made that attempt itself: the platform remembers nothing of such a
-- step. NULL for an attempt that was a step of the platform. No index, so an entry costs what it did.
ALTER TABLE inbox ADD COLUMN began_at INTEGER;
