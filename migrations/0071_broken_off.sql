-- How often the keeper has restarted the present run because the platform ended it with an error of its own: the number of the run, and how often, as a JSON array.
-- NULL where it never has. A later run counts from the beginning, because the number of its run differs.
ALTER TABLE instances ADD COLUMN broken_off TEXT CHECK (broken_off IS NULL OR json_valid(broken_off));
