-- Counts the restarts by the keeper of the present run after errors of the platform itself. A JSON array: the number of the run, and the count.
-- NULL for no restart. A later run has another number, so its count starts at 0.
ALTER TABLE instances ADD COLUMN broken_off TEXT CHECK (broken_off IS NULL OR json_valid(broken_off));
