-- The steps that a run had begun before the database was set back to an earlier time, and that have no record in it, as a list in JSON.
-- NULL for an instance whose database knows all of its runs.
ALTER TABLE instances ADD COLUMN lost TEXT;
