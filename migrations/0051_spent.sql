-- What each run of an instance used of the platform, as JSON by the number of the run: its end counted it.
-- Written with the end, in the row that is written then anyway. NULL for one that has not ended, or whose end the keeper has found.
ALTER TABLE instances ADD COLUMN spent TEXT;
