-- What the code of the last run had caught, as JSON: the run that an operator begins is told of it, where nothing recorded remembers it.
ALTER TABLE instances ADD COLUMN caught TEXT;
