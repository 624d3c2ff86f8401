-- When the attempt ended that a pass made itself from its beginning to its end, in milliseconds. NULL for one that the platform took over, or made: that has the
-- beginning alone, where a pass began it. No index, so an entry costs what it did.
ALTER TABLE inbox ADD COLUMN ended_at INTEGER;
