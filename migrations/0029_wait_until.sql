-- Until when a wait waits, for people to read: what decides is since_at and the time that the code gives. NULL for one that began before this was noted.
ALTER TABLE waits ADD COLUMN due_at INTEGER;
