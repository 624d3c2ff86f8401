-- When a run asked for a wait last: of two for the same, the one that the code came by later is served first. Absent from older rows.
ALTER TABLE waits ADD COLUMN asked_at INTEGER;
